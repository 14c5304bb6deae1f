package cli

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"

	"transportbench/core/base/config"
	"transportbench/core/lab/experiment/network"
	"transportbench/core/transport"
)

var networkMechanism = sync.OnceValues(network.Find)

// imitatesNetworks reports whether a transport has the options that faultsOf sets.
func imitatesNetworks(info transport.Info) bool {
	return slices.ContainsFunc(info.Options, func(o transport.Option) bool { return o.Name == "fault-drop" })
}

// faultsOf returns the options by which a transport that sends datagrams has the impairments of a network
// itself. It draws each fault when it sends a datagram and again when it receives it. missing is why
// there is no network.
func faultsOf(p config.Impairments, missing error) (map[string]string, error) {
	for name, set := range map[string]bool{"jitter": p.Jitter > 0, "rate": p.Rate > 0} {
		if set {
			return nil, usagef("%v; without, the transport can imitate loss, delay and reorder, but no %s", missing, name)
		}
	}
	once := func(share float64) string { // in millionths, so that two draws have the share
		return strconv.Itoa(int(math.Round(1e6 * (1 - math.Sqrt(1-share)))))
	}
	faults := map[string]string{"fault-drop": once(p.Loss), "fault-reorder": once(p.Reorder)}
	if p.Delay > 0 {
		faults["fault-delay"], faults["fault-delay-by"] = "1000000", fmt.Sprint(p.Delay/2)
	}
	return faults, nil
}
