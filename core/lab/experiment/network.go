package experiment

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
	"sync"

	"transportbench/core/base/config"
	"transportbench/core/base/netem"
	"transportbench/core/lab/experiment/network"
	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/store/result"
	"transportbench/core/transport"
)

var networkMechanism = sync.OnceValues(network.Find)

// Networked is a launcher that can start ranks in a network of their own.
type Networked interface {
	runner.Launcher
	// In returns a launcher that does.
	In(n *network.Network) runner.Launcher
}

// impair gives a run its network, if it asks for one. Transports with an option for their address
// use the one that they have there unless the user has set another, and each datagram is a packet.
// Where this user may not make networks, a transport with faults of its own imitates it.
func (e *Engine) impair(req *runner.Request, info transport.Info) error {
	c := &req.Config
	if c.Network == "" {
		return nil
	}
	own, here := req.Launcher.(Networked)
	switch {
	case !here:
		return wrongNetwork("it joins ranks that this command starts on this host; leave out the " +
			"hosts or TRANSPORTBENCH_REATTACH")
	case req.Witness:
		return wrongNetwork("a reference tool would not pass it; leave out --witness")
	}
	mechanism, err := networkMechanism()
	switch {
	case err != nil && info.Roles.Drop != "":
		faults, err := faultsOf(info.Roles, c.Network.Impairments(), err)
		if err != nil {
			return err
		}
		c.Options = maps.Clone(c.Options)
		maps.Copy(c.Options, faults)
		e.noteOnce(fmt.Sprintf("%s drops, delays and reorders its datagrams itself, as --network "+
			"%s asks: this user may not make networks", info.Name, c.Network))
		req.ImpairedBy = result.Imitated
		return nil
	case err != nil:
		return err
	}
	n := network.New(mechanism, c.Network.Impairments(), c.Seed)
	req.ImpairedBy = mechanism
	req.Launcher, req.Network = own.In(n), n
	c.Options = maps.Clone(c.Options)
	if strings.HasPrefix(c.Options[info.Roles.Address], "127.") {
		c.Options[info.Roles.Address] = network.Prefix
	}
	// The kernel would impair datagrams that it gets as one as if they were one packet.
	for _, o := range info.Options {
		if value, has := info.PerPacket[o.Name]; has && c.Options[o.Name] == o.Default {
			c.Options[o.Name] = value
		}
	}
	return nil
}

// explainAddress replaces an error about the address that impair has set in req: the user of asked
// chose none.
func explainAddress(err error, asked config.Config, req *runner.Request,
	roles transport.Roles) error {
	var refused *transport.OptionError
	if !errors.As(err, &refused) || refused.Option != roles.Address ||
		asked.Options[roles.Address] == req.Config.Options[roles.Address] {
		return err
	}
	return wrongNetwork(fmt.Sprintf("it needs kernel TCP or UDP sockets, and with these options "+
		"%[1]s refuses an IP address: choose others (plugins show %[1]s)", asked.Transport))
}

func wrongNetwork(problem string) error {
	return &config.Error{Option: "network", Problem: problem}
}

// faultsOf returns the options by which a transport that sends datagrams has the impairments of a
// network itself. It draws each fault when it sends a datagram and again when it receives it.
// missing is why there is no network.
func faultsOf(roles transport.Roles, p netem.Impairments, missing error) (
	map[string]string, error,
) {
	for name, set := range map[string]bool{"jitter": p.Jitter > 0, "rate": p.Rate > 0} {
		if set {
			return nil,
				wrongNetwork(fmt.Sprintf(
					"%v; without, the transport can imitate loss, delay and reorder, but no %s",
					missing, name))
		}
	}
	once := func(share float64) string { // in millionths, so that two draws have the share
		return strconv.Itoa(int(math.Round(1e6 * (1 - math.Sqrt(1-share)))))
	}
	faults := map[string]string{roles.Drop: once(p.Loss), roles.Reorder: once(p.Reorder)}
	if p.Delay > 0 {
		faults[roles.Delay], faults[roles.DelayBy] = "1000000", fmt.Sprint(p.Delay/2)
	}
	return faults, nil
}
