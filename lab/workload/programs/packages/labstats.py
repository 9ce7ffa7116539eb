"""A package of the site, outside of Python's own path."""


def mean(numbers):
    """Return the average."""
    return sum(numbers) / len(numbers)


def spread(numbers):
    """Return the standard deviation."""
    middle = mean(numbers)
    return (sum((number - middle) ** 2 for number in numbers) / len(numbers)) ** 0.5
