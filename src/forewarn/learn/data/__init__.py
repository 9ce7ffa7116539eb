"""The data that models learn from: tables of jobs in order of time, and the samples taken from them."""
