"""Pages are not spread over ranks."""


def get_kv_shard_group(_is_mla):
    raise NotImplementedError("pages are not spread here")
