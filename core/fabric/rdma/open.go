package rdma

import (
	"errors"
	"fmt"

	"transportbench/core/fabric/rdma/internal/objects"
	"transportbench/core/transport"
)

// Provider is the kind of device that carries the bytes.
type Provider string

// The providers. Auto takes verbs if a device has an active port, and soft otherwise;
// Attributes.Provider is the choice.
const (
	Auto  Provider = "auto"
	Verbs Provider = "verbs"
	Soft  Provider = "soft"
)

// The errors that callers distinguish, with [errors.Is].
var (
	// ErrUnavailable means that this machine lacks the device; the text has the reason. It is
	// transport.ErrUnavailable because the transport cannot run either.
	ErrUnavailable = transport.ErrUnavailable
	// ErrQueueFull means that a queue has no room. Poll completions and try again.
	ErrQueueFull = errors.New("queue is full")
	// ErrClosed means that the device or object is closed.
	ErrClosed = objects.ErrClosed
	// ErrInvalid means that no device accepts this request or setting.
	ErrInvalid = errors.New("invalid")
	// ErrPeer means that an endpoint belongs to no live queue pair that fits.
	ErrPeer = errors.New("peer cannot be reached")
)

// AnyGID leaves the choice of the GID index to Open.
const AnyGID = -1

// Options select the device to open. The zero value, except for GIDIndex, selects the
// first device that works.
type Options struct {
	Provider Provider // "" is Auto
	// Device is the name of a device ("mlx5_0"), or "" for the first with an active port.
	// Port counts from 1; 0 is the first active one. Verbs only.
	Device string
	Port   int
	// GIDIndex is an entry of the port's GID table, or AnyGID: on RoCE the first of version
	// 2 with an IPv4 address, else the first of version 2, else 0. Verbs only.
	GIDIndex int
}

// Invalid returns an error that wraps ErrInvalid.
func Invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrInvalid, fmt.Errorf(format, args...))
}

// The errors of requests and settings that no device accepts. They wrap ErrInvalid, and are made
// here because PostSend must not allocate.
var (
	ErrSharedReceives = Invalid(
		"PostReceive of a queue pair with a shared receive queue: post to that queue")
	ErrNotConnected   = Invalid("request on a queue pair that is not connected")
	ErrInlineLength   = Invalid("inline request over the MaxInline of the queue pair")
	ErrOpcode         = Invalid("opcode that this type of queue pair does not support")
	ErrNoPeer         = Invalid("datagram to a peer without AddPeer")
	ErrDatagramLength = Invalid("datagram over the MTU")
	ErrAtomic         = Invalid("atomic operation that is not of 8 bytes at an aligned address")
	ErrNotifierLate   = Invalid(
		"notifier of a completion queue that already has a notifier or queue pairs")
)

// Check returns an error for a configuration that the device does not accept.
func (c *QueuePairConfig) Check(a Attributes) error {
	switch {
	case c.Type < ReliableConnected || c.Type > DynamicallyConnected:
		return Invalid("%v", c.Type)
	case c.Type == DynamicallyConnected && a.Provider == Soft:
		return Invalid("the soft device has no dynamically connected queue pairs")
	case c.Type == DynamicallyConnected && c.Shared == nil:
		return Invalid("DC queue pair without a shared receive queue")
	case c.Completions == nil:
		return Invalid("queue pair without a completion queue")
	case c.SendDepth < 1 || c.SendDepth > a.MaxSendDepth:
		return Invalid("send queue of %d requests: %s has 1 to %d", c.SendDepth, a.Name,
			a.MaxSendDepth)
	case c.Shared == nil && c.ReceiveDepth < 1 || c.ReceiveDepth > a.MaxReceiveDepth:
		return Invalid("receive queue of %d requests: %s has 1 to %d", c.ReceiveDepth, a.Name,
			a.MaxReceiveDepth)
	case c.MaxInline < 0:
		return Invalid("inline size of %d bytes", c.MaxInline)
	}
	return nil
}

// CheckCapacity returns an error for a queue that the device cannot make.
func (a Attributes) CheckCapacity(queue string, capacity, maximum int) error {
	if capacity < 1 || capacity > maximum {
		return Invalid("%s of %d entries: %s has 1 to %d", queue, capacity, a.Name, maximum)
	}
	return nil
}

// CheckRemote returns an error for a remote that a queue pair with this endpoint cannot
// reach.
func (e Endpoint) CheckRemote(remote Endpoint) error {
	switch {
	case remote.Provider != e.Provider:
		return fmt.Errorf("%w: its provider is %q, this one's %q", ErrPeer, remote.Provider,
			e.Provider)
	case remote.Type != e.Type:
		return fmt.Errorf("%w: its queue pair is %v, this one %v", ErrPeer, remote.Type, e.Type)
	}
	return nil
}

// Complete checks the options and fills in defaults.
func (o ConnectOptions) Complete(local, remote Endpoint) (ConnectOptions, error) {
	within := func(name string, value *int, low, high, standard int) error {
		if *value == 0 {
			*value = standard
		} else if *value < low || *value > high {
			return Invalid("%s of %d: want %d to %d", name, *value, low, high)
		}
		return nil
	}
	for _, err := range []error{
		within("timeout exponent", &o.Timeout, 1, 31, 14),
		within("retry count", &o.Retries, 1, 7, 7),
		within("receiver-not-ready retry count", &o.ReceiverNotReadyRetries, 1, 6, 7),
		within("receiver-not-ready timer", &o.ReceiverNotReadyTimer, 1, 31, 12),
		within("number of READs in flight", &o.ReadsInFlight, 1, 128, 1),
	} {
		if err != nil {
			return o, err
		}
	}
	if o.MTU == 0 {
		o.MTU = min(local.MTU, remote.MTU)
	}
	if _, ok := mtuCode(o.MTU); !ok {
		return o, Invalid("path MTU of %d bytes: want 256, 512, 1024, 2048 or 4096", o.MTU)
	}
	if o.MTU > local.MTU || o.MTU > remote.MTU {
		return o, Invalid("path MTU of %d bytes: the ports have %d and %d", o.MTU, local.MTU,
			remote.MTU)
	}
	return o, nil
}

// mtuCode returns the code of enum ibv_mtu.
func mtuCode(bytes int) (code int, ok bool) {
	for code, b := range [...]int{1: 256, 2: 512, 3: 1024, 4: 2048, 5: 4096} {
		if b == bytes && b > 0 {
			return code, true
		}
	}
	return 0, false
}
