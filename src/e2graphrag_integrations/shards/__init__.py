"""One index in several files or schemas, for collections beyond one machine.

A shard is an ordinary index of some of the documents. A coordinator merges what all scores depend
on and the lists of the shards, so the answers are those of one index.
"""
