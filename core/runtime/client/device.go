package client

import (
	"fmt"
	"math"

	"transportbench/core/runtime/kv"
	"transportbench/core/transport"
)

// MoveToDevice moves the values of all requests to device memory, from which the transport sends
// them. The host's copies are erased, so that only the device has the bytes that daemons verify.
func (c *Client) MoveToDevice() error {
	sender, ok := c.worker.(transport.DeviceWorker)
	slots := len(c.calls)
	switch {
	case !ok:
		return fmt.Errorf(
			"transport %s declares device_send and its workers are no DeviceWorker: %w",
			c.config.Transport, transport.ErrUnsupported)
	case !c.repeats:
		return fmt.Errorf("transport %s sends values from device memory, and this workload "+
			"writes its requests as it goes: %w by this runtime; "+
			"use one that repeats its requests, such as --profile bulk, or transport options "+
			"that send from host memory", c.config.Transport, transport.ErrUnsupported)
	case slots > math.MaxUint16:
		return fmt.Errorf("transport %s sends values from device memory, which has slots for %d "+
			"requests, and this client has %d: %w; lower --keys or --in-flight",
			c.config.Transport, math.MaxUint16, slots, transport.ErrUnsupported)
	}
	if err := sender.ReserveDevice(uint16(slots), c.config.LargestMessage()); err != nil {
		return err
	}
	c.device = sender
	return c.writeDevice()
}

// writeDevice moves the values of all requests.
func (c *Client) writeDevice() error {
	for i := range c.calls {
		request := &c.requests[i]
		request.DeviceSlot = 0
		if len(request.Payload) <= kv.HeaderSize {
			continue
		}
		request.DeviceSlot = uint16(i + 1)
		if err := c.device.WriteDevice(request.DeviceSlot, request.Payload); err != nil {
			return err
		}
		clear(request.Payload[kv.HeaderSize:])
		request.Payload = request.Payload[:kv.HeaderSize]
	}
	copy(c.requests[len(c.calls):], c.requests) // the first ones are there again
	return nil
}
