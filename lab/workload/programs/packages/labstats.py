"""A package of the site, outside of Python's own path."""


def mean(numbers):
    """The average."""
    return sum(numbers) / len(numbers)


def spread(numbers):
    """The standard deviation."""
    middle = mean(numbers)
    return (sum((number - middle) ** 2 for number in numbers) / len(numbers)) ** 0.5
