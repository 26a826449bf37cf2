"""Tags of messages between ranks; one rank sends none."""


class P2PTag:
    pass
