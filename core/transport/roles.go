package transport

import (
	"errors"
	"fmt"
	"slices"
)

// Roles name the options of a transport that mean something to the host. A role without an option
// is empty.
type Roles struct {
	// Provider selects what carries the bytes. A value that is one of the media of [Properties]
	// selects that medium; [Auto] or an empty one leaves the choice to the transport.
	Provider string `json:"provider,omitempty" bound:"<=256"`
	// Device names a network interface or an RDMA device, with or without a port (mlx5_0:1). The
	// host places threads close to it.
	Device string `json:"device,omitempty" bound:"<=256"`
	// Address is an IP address of a rank's host, or a network that has one: 10.0.0.0/24. On several
	// hosts, and in an emulated network, the host sets it if it has its default.
	Address string `json:"address,omitempty" bound:"<=256"`
	// Streams is the number of parallel connections between two workers.
	Streams string `json:"streams,omitempty" bound:"<=256"`
	// Drop, Reorder and Delay are shares, in millionths, of the datagrams that a worker drops,
	// swaps with the next one, and delays by DelayBy. Each fault is drawn when a datagram is sent,
	// and again when it is received. With these options a transport imitates a network that the
	// kernel may not emulate.
	Drop    string `json:"drop,omitempty" bound:"<=256"`
	Reorder string `json:"reorder,omitempty" bound:"<=256"`
	Delay   string `json:"delay,omitempty" bound:"<=256"`
	DelayBy string `json:"delay_by,omitempty" bound:"<=256"`
}

// Check returns an error if a role names an option that the schema lacks, or one of another type.
func (r Roles) Check(schema []Option) error {
	for _, role := range []struct {
		name, option string
		is           OptionType
	}{
		{"provider", r.Provider, TypeString}, {"device", r.Device, TypeString},
		{"address", r.Address, TypeString}, {"streams", r.Streams, TypeInt},
		{"drop", r.Drop, TypeInt}, {"reorder", r.Reorder, TypeInt}, {"delay", r.Delay, TypeInt},
		{"delay_by", r.DelayBy, TypeDuration},
	} {
		at := slices.IndexFunc(schema, func(o Option) bool { return o.Name == role.option })
		switch {
		case role.option == "":
		case at < 0:
			return fmt.Errorf("roles.%s: there is no option %q", role.name, role.option)
		case schema[at].Type != role.is:
			return fmt.Errorf("roles.%s: option %q is of type %s, not %s", role.name, role.option,
				schema[at].Type, role.is)
		}
	}
	faults := []string{r.Drop, r.Reorder, r.Delay, r.DelayBy}
	if n := len(slices.DeleteFunc(faults, func(o string) bool { return o == "" })); n%4 != 0 {
		return errors.New("roles: drop, reorder, delay and delay_by imitate a network together")
	}
	return nil
}
