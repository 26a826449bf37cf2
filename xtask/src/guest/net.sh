#!/bin/busybox sh
# RDMA links of the guest.
#
#   te-net pairs N | star N | cards    make the links and a device rxeI on each
#   te-net list                        DEVICE NETDEV ADDRESS, one line each
#   te-net down DEVICE                 take its link away
#   te-net up DEVICE                   give it back, with its addresses and routes
#   te-net loss DEVICE PERCENT         lose so many of the packets that it sends; 0 loses none
#
# Packets between two addresses of one machine would take the loopback device, on which there is no
# RDMA. Its driver asks for routes with the outgoing device set, so a rule for each device, ahead of
# the table of local addresses, leads them over the links.
set -e
LIST=/run/te-net
IP=/usr/bin/ip

die() { echo "te-net: $*" >&2; exit 1; }

rules() {
    $IP rule list | grep -q '^100:' || { $IP rule add pref 100 lookup local; $IP rule del pref 0; }
    # With the usual 1000 packets, what several queue pairs have in flight overruns a link.
    echo 100000 >/proc/sys/net/core/netdev_max_backlog
    for f in /proc/sys/net/ipv4/conf/*; do
        echo 0 >"$f/rp_filter"; echo 1 >"$f/accept_local"
        echo 1 >"$f/arp_ignore"; echo 2 >"$f/arp_announce"
    done
}

# address NETDEV ADDRESS TABLE PEERS: taking a link down takes its routes, so this also mends it.
address() {
    $IP addr add "$2/24" dev "$1" noprefixroute 2>/dev/null || true
    $IP link set "$1" up
    for peer in $4; do
        [ "$peer" = "$2" ] || $IP route replace "$peer/32" dev "$1" src "$2" table "$3"
    done
    $IP rule list | grep -q "oif $1 lookup $3" || $IP rule add pref 10 oif "$1" lookup "$3"
}

# device INDEX NETDEV ADDRESS PEERS
device() {
    address "$2" "$3" $((101 + $1)) "$4"
    /usr/bin/rdma link add "rxe$1" type rxe netdev "$2"
    echo "rxe$1 $2 $3 $((101 + $1)) $4" >>$LIST
}

pairs() {
    i=0
    while [ $i -lt "$1" ]; do
        a=$((2 * i)); b=$((2 * i + 1)); net=192.168.$((77 + i))
        # The largest RDMA packet needs 4096 bytes beside its headers.
        $IP link add veth$a mtu 4200 type veth peer name veth$b mtu 4200
        rules
        device $a veth$a $net.1 "$net.2"
        device $b veth$b $net.2 "$net.1"
        i=$((i + 1))
    done
}

star() {
    $IP link add hub mtu 4200 type bridge
    $IP link set hub up
    peers=""; i=0
    while [ $i -lt "$1" ]; do peers="$peers 192.168.77.$((i + 1))"; i=$((i + 1)); done
    i=0
    while [ $i -lt "$1" ]; do
        $IP link add veth$i mtu 4200 type veth peer name port$i mtu 4200
        $IP link set port$i master hub up
        rules
        device $i veth$i 192.168.77.$((i + 1)) "$peers"
        i=$((i + 1))
    done
}

cards() {
    # Numbers of netdevs follow the order of probing: PCI addresses are what stays.
    found=$(for d in /sys/class/net/*; do
        [ ! -e "$d/device" ] || echo "$(readlink -f "$d/device") ${d##*/}"
    done | sort | cut -d' ' -f2)
    peers=""; i=0
    for d in $found; do i=$((i + 1)); peers="$peers 192.168.77.$i"; done
    rules
    i=0
    for d in $found; do
        $IP link set "$d" mtu 4200 2>/dev/null || true
        device $i "$d" 192.168.77.$((i + 1)) "$peers"
        i=$((i + 1))
    done
    rules
}

# of DEVICE: sets netdev, ip, table, peers.
of() {
    line=$(grep "^$1 " $LIST) || die "there is no device $1"
    read -r _ netdev ip table peers <<X
$line
X
}

case "$1" in
    pairs) pairs "$2" ;;
    star) star "$2" ;;
    cards) cards ;;
    list) cut -d' ' -f1-3 $LIST ;;
    down) of "$2"; $IP link set "$netdev" down ;;
    up) of "$2"; address "$netdev" "$ip" "$table" "$peers" ;;
    loss)
        of "$2"
        /usr/bin/tc qdisc del dev "$netdev" root 2>/dev/null || true
        [ "$3" = 0 ] || /usr/bin/tc qdisc add dev "$netdev" root netem loss "$3%"
        ;;
    *) die "what is to be done? pairs, star, cards, list, down, up, loss" ;;
esac
