package transport

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// LocalAddress returns the IP address that an option's text stands for: itself, or of a
// network, such as 10.0.0.0/24, the address that this host has there. So one text serves
// ranks of several hosts. It does not look whether the host has an address that is given as
// such, which binding tells. The error is a [OptionError] of that option.
func LocalAddress(option, text string) (netip.Addr, error) {
	var local []netip.Addr
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("addresses of this host: %w", err)
	}
	for _, a := range addresses {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			local = append(local, prefix.Addr())
		}
	}
	a, problem := localAddress(text, local)
	if problem != "" {
		return a, &OptionError{Option: option, Problem: problem}
	}
	return a, nil
}

func localAddress(text string, local []netip.Addr) (a netip.Addr, problem string) {
	if a, err := netip.ParseAddr(text); err == nil {
		return a.Unmap(), ""
	}
	network, err := netip.ParsePrefix(text)
	if err != nil {
		return a, fmt.Sprintf("%q is neither an IP address nor a network such as 10.0.0.0/24", text)
	}
	var has []string
	for _, l := range local {
		if network.Contains(l) {
			return l, ""
		}
		has = append(has, l.String())
	}
	return a, fmt.Sprintf("this host has no address in %v; it has %s", network, strings.Join(has, ", "))
}
