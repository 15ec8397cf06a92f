"""A survey of more GPUs than one page should have comes in; an overview and a page for each part go out.

Cards are made as on any page, by view.py of the hosts of a part. Nothing here decides what is free or faulty.
"""
