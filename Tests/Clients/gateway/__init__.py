"""The differential test of the sync gateway: the same requests to two gateways, their answers compared.

`generator` makes requests from a seed, `driver` sends them and reads the answers, `normal` replaces
what a gateway chooses at random, `comparer` compares two answers, `differences` has the differences
that are allowed, `campaign` runs it all and records the answers of a real gateway.
"""
