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
// such, which binding tells. The error names the option, unless this host's addresses cannot
// be listed.
func LocalAddress(option, text string) (netip.Addr, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		return a.Unmap(), nil
	}
	network, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Addr{}, &OptionError{Option: option, Problem: fmt.Sprintf("%q is neither an IP address nor a network such as 10.0.0.0/24", text)}
	}
	local, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("%s %v: addresses of this host: %w", option, network, err)
	}
	a, has := within(network, local)
	if !a.IsValid() {
		return a, &OptionError{Option: option, Problem: fmt.Sprintf("this host has no address in %v; it has %s", network, strings.Join(has, ", "))}
	}
	return a, nil
}

// within returns the first address that lies in a network, and all that it looked at. Those
// of a link alone are of no use without the link's name, which a network does not tell.
func within(network netip.Prefix, local []net.Addr) (a netip.Addr, has []string) {
	for _, l := range local {
		prefix, err := netip.ParsePrefix(l.String())
		if err != nil || prefix.Addr().Is6() && prefix.Addr().IsLinkLocalUnicast() {
			continue
		}
		if network.Contains(prefix.Addr()) {
			return prefix.Addr(), nil
		}
		has = append(has, prefix.Addr().String())
	}
	return a, has
}
