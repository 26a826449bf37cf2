"""The class of a server's flags; the transfer code hands it on."""


class ServerArgs:
    enable_pd_role_switch = False
