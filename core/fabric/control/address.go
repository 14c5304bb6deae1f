package control

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	"transportbench/core/transport"
)

// LocalAddress parses the text of an option that selects an IP address of this host: either the
// address, or a network such as 10.0.0.0/24, which stands for this host's address in it, so that
// ranks on several hosts can share the option. LocalAddress does not check that this host has an
// address that is given as such; binding to it does. Errors are an [*transport.OptionError], unless
// this host's addresses cannot be listed.
func LocalAddress(option, text string) (netip.Addr, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		return a.Unmap(), nil
	}
	network, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Addr{}, &transport.OptionError{Option: option,
			Problem: fmt.Sprintf("%q is neither an IP address nor a network such as 10.0.0.0/24",
				text)}
	}
	local, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("option %q: list the addresses of this host: %w",
			option, err)
	}
	a, has := within(network, local)
	if !a.IsValid() {
		return a, &transport.OptionError{Option: option,
			Problem: fmt.Sprintf("this host has no address in %v; it has %s", network,
				strings.Join(has, ", "))}
	}
	return a, nil
}

// within returns the first address in network, or an invalid address and the addresses that it
// considered. It ignores IPv6 link-local addresses, which need the name of a link.
func within(network netip.Prefix, local []net.Addr) (a netip.Addr, considered []string) {
	for _, l := range local {
		prefix, err := netip.ParsePrefix(l.String())
		if err != nil || prefix.Addr().Is6() && prefix.Addr().IsLinkLocalUnicast() {
			continue
		}
		if network.Contains(prefix.Addr()) {
			return prefix.Addr(), nil
		}
		considered = append(considered, prefix.Addr().String())
	}
	return a, considered
}
