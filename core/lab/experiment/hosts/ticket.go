package hosts

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Token is the secret that the coordinator and the agents of one run share.
type Token [16]byte

// Ticket is what an agent needs to join a run. As text it is one word: "tb1-TOKEN@ADDRESS,ADDRESS".
type Ticket struct {
	Token Token
	// Addresses are those of the coordinator, as HOST:PORT. An agent tries them in order.
	Addresses []string
}

const (
	ticketPrefix  = "tb1-" // changes with the format
	longestTicket = 4096
	maxAddresses  = 32
)

// errTicket says what a ticket looks like, without any part of what was given: it may be secret.
var errTicket = errors.New("not a ticket, which is one word such as tb1-TOKEN@10.0.0.1:7177; " +
	"copy it from the output of the coordinator")

func (t Ticket) String() string {
	return ticketPrefix + hex.EncodeToString(t.Token[:]) + "@" + strings.Join(t.Addresses, ",")
}

// Shorten returns the ticket without the last addresses, as many as it takes to have at most
// longest bytes of text. It keeps one address.
func (t Ticket) Shorten(longest int) Ticket {
	for len(t.Addresses) > 1 && len(t.String()) > longest {
		t.Addresses = t.Addresses[:len(t.Addresses)-1]
	}
	return t
}

// ParseTicket returns the ticket that text has.
func ParseTicket(text string) (Ticket, error) {
	var t Ticket
	rest, found := strings.CutPrefix(text, ticketPrefix)
	token, addresses, complete := strings.Cut(rest, "@")
	if !found || !complete || len(text) > longestTicket ||
		len(token) != hex.EncodedLen(len(t.Token)) {
		return t, errTicket
	}
	if _, err := hex.Decode(t.Token[:], []byte(token)); err != nil {
		return t, errTicket
	}
	t.Addresses = strings.Split(addresses, ",")
	if len(t.Addresses) > maxAddresses {
		return Ticket{}, errTicket
	}
	for _, a := range t.Addresses {
		if err := checkAddress(a); err != nil {
			return Ticket{}, errTicket
		}
	}
	return t, nil
}

// checkAddress returns an error unless an agent can dial address.
func checkAddress(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 {
		return fmt.Errorf("%q is no port", port)
	}
	if host == "" || strings.ContainsFunc(host, func(r rune) bool {
		return r <= ' ' || r > '~' ||
			r == ',' || r == '@'
	}) {
		return fmt.Errorf("%q is no host", host)
	}
	return nil
}

// addresses returns where agents reach a listener on bound: that address, or if it stands for all
// of this host's, each of them. Loopback addresses are included only if there are no others.
func addresses(bound netip.AddrPort, local []net.Addr) []string {
	if !bound.Addr().IsUnspecified() {
		return []string{bound.String()}
	}
	var all, loopback []string
	for _, l := range local {
		prefix, err := netip.ParsePrefix(l.String())
		if err != nil || prefix.Addr().IsLinkLocalUnicast() || bound.Addr().Is4() &&
			prefix.Addr().Is6() {
			continue
		}
		list := &all
		if prefix.Addr().IsLoopback() {
			list = &loopback
		}
		*list = append(*list, netip.AddrPortFrom(prefix.Addr(), bound.Port()).String())
	}
	if len(all) == 0 {
		all = loopback
	}
	slices.SortStableFunc(all, func(a, b string) int { // IPv4 first
		return strings.Count(a, "[") - strings.Count(b, "[")
	})
	return all[:min(len(all), maxAddresses)]
}
