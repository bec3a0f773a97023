"""Which partition a lease serves."""


def served(scripts, token):
    """Lease one item; the partitions it came from, by the first letter of its id."""
    return [item_id[0] for item_id in scripts.take(token)]
