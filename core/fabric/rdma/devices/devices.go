package devices

import (
	"errors"
	"fmt"

	"transportbench/core/fabric/rdma"
	"transportbench/core/fabric/rdma/soft"
)

// Open opens a device. Soft replaces missing verbs only if the provider is Auto and the
// options name neither a device nor a port; Attributes.Fallback has the reason then.
func Open(o rdma.Options) (rdma.Device, error) {
	switch o.Provider {
	case rdma.Soft:
		if o.Device != "" {
			return nil, fmt.Errorf("%w: the soft provider has no device %q", rdma.ErrInvalid,
				o.Device)
		}
		return soft.Open("")
	case rdma.Verbs:
		return rdma.OpenVerbs(o)
	case rdma.Auto, "":
		device, err := rdma.OpenVerbs(o)
		if err == nil {
			return device, nil
		}
		if o.Device != "" || o.Port != 0 || !errors.Is(err, rdma.ErrUnavailable) {
			return nil, err
		}
		return soft.Open(err.Error())
	default:
		return nil, fmt.Errorf("%w: provider %q is not one of %s, %s, %s", rdma.ErrInvalid,
			o.Provider,
			rdma.Auto, rdma.Verbs, rdma.Soft)
	}
}
