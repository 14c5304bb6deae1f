package rdma

import (
	"strconv"

	"transportbench/core/transport"
)

// Path returns the path of what the device carries. The software device is memory that processes
// share.
func (a Attributes) Path() transport.Path {
	facts := map[string]string{"port_mtu": strconv.Itoa(a.MTU)}
	if a.Provider != Verbs {
		facts["device"] = string(a.Provider)
		return transport.Path{Carrier: transport.MediumMemory, Facts: facts}
	}
	facts[transport.FactGIDIndex], facts[transport.FactLinkLayer] = strconv.Itoa(a.GIDIndex), a.Link
	return transport.Path{Carrier: transport.MediumVerbs, Device: a.Name, Port: a.Port,
		Facts: facts}
}
