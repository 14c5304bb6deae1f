package devmem

import (
	"errors"
	"fmt"

	"github.com/mdlayher/genetlink"
	"github.com/mdlayher/netlink"
)

// Numbers of the families, from include/uapi/linux/netdev.h and ethtool_netlink.h.
const (
	netdevVersion     = 1
	commandQueueGet   = 10 // NETDEV_CMD_QUEUE_GET
	commandBindRX     = 13 // NETDEV_CMD_BIND_RX
	commandBindTX     = 15 // NETDEV_CMD_BIND_TX, since Linux 6.16
	queueID           = 1  // NETDEV_A_QUEUE_ID
	queueInterface    = 2  // NETDEV_A_QUEUE_IFINDEX
	queueType         = 3  // NETDEV_A_QUEUE_TYPE
	queueTypeRX       = 0  // NETDEV_QUEUE_TYPE_RX
	dmabufInterface   = 1  // NETDEV_A_DMABUF_IFINDEX
	dmabufQueues      = 2  // NETDEV_A_DMABUF_QUEUES
	dmabufDescriptor  = 3  // NETDEV_A_DMABUF_FD
	dmabufID          = 4  // NETDEV_A_DMABUF_ID
	ethtoolVersion    = 1
	commandRingsGet   = 15 // ETHTOOL_MSG_RINGS_GET
	commandRingsSet   = 16 // ETHTOOL_MSG_RINGS_SET
	ringsHeader       = 1  // ETHTOOL_A_RINGS_HEADER
	ringsSplit        = 11 // ETHTOOL_A_RINGS_TCP_DATA_SPLIT
	headerDeviceIndex = 1  // ETHTOOL_A_HEADER_DEV_INDEX
)

// Values of ETHTOOL_A_RINGS_TCP_DATA_SPLIT.
const (
	splitUnknown = 0
	splitOff     = 1
	splitOn      = 2
)

// family is a socket to one family of generic netlink. Bindings made through it end when it is
// closed, at the latest when the process ends.
type family struct {
	conn *genetlink.Conn
	id   uint16
	name string
}

func openFamily(name string) (*family, error) {
	conn, err := genetlink.Dial(nil)
	if err != nil {
		return nil, fmt.Errorf("generic netlink: %w", err)
	}
	got, err := conn.GetFamily(name)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("no family %s: %w", name, err), conn.Close())
	}
	// Ask for error messages; older kernels have none.
	_ = conn.SetOption(netlink.ExtendedAcknowledge, true)
	return &family{conn: conn, id: got.ID, name: name}, nil
}

func (f *family) Close() error { return f.conn.Close() }

// call sends one command and returns the answers.
func (f *family) call(command, version uint8, flags netlink.HeaderFlags,
	attributes func(*netlink.AttributeEncoder)) ([]genetlink.Message, error) {
	ae := netlink.NewAttributeEncoder()
	attributes(ae)
	data, err := ae.Encode()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.name, err)
	}
	m := genetlink.Message{Header: genetlink.Header{Command: command, Version: version}, Data: data}
	answers, err := f.conn.Execute(m, f.id, netlink.Request|flags)
	var refused *netlink.OpError
	if errors.As(err, &refused) && refused.Message != "" {
		return nil, fmt.Errorf("%w (%s)", refused.Err, refused.Message)
	} else if errors.As(err, &refused) {
		return nil, refused.Err
	}
	return answers, err
}

// receiveQueues returns the number of receive queues of an interface that is up.
func (f *family) receiveQueues(index uint32) (n int, err error) {
	answers, err := f.call(commandQueueGet, netdevVersion, netlink.Dump,
		func(ae *netlink.AttributeEncoder) {
			ae.Uint32(queueInterface, index)
		})
	if err != nil {
		return 0, err
	}
	for _, m := range answers {
		ad, err := netlink.NewAttributeDecoder(m.Data)
		if err != nil {
			return 0, err
		}
		for ad.Next() {
			if ad.Type() == queueType && ad.Uint32() == queueTypeRX {
				n++
			}
		}
		if err := ad.Err(); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// bind binds a dmabuf to a receive queue and returns the binding's ID.
func (f *family) bind(index uint32, queue, descriptor int) (id uint32, err error) {
	return f.bindDmabuf(commandBindRX, index, descriptor, func(ae *netlink.AttributeEncoder) {
		ae.Nested(dmabufQueues, func(ae *netlink.AttributeEncoder) error {
			ae.Uint32(queueID, uint32(queue))
			ae.Uint32(queueType, queueTypeRX)
			return nil
		})
	})
}

// bindTX binds a dmabuf to an interface that sends from it and returns the binding's ID.
func (f *family) bindTX(index uint32, descriptor int) (id uint32, err error) {
	return f.bindDmabuf(commandBindTX, index, descriptor, func(*netlink.AttributeEncoder) {})
}

func (f *family) bindDmabuf(command uint8, index uint32, descriptor int,
	more func(*netlink.AttributeEncoder)) (id uint32, err error) {
	answers, err := f.call(command, netdevVersion, 0, func(ae *netlink.AttributeEncoder) {
		ae.Uint32(dmabufInterface, index)
		ae.Uint32(dmabufDescriptor, uint32(descriptor))
		more(ae)
	})
	if err != nil {
		return 0, err
	}
	return id, attribute(answers, dmabufID, func(ad *netlink.AttributeDecoder) { id = ad.Uint32() })
}

// split returns the header split of an interface.
func (f *family) split(index uint32) (value uint8, err error) {
	answers, err := f.call(commandRingsGet, ethtoolVersion, 0,
		func(ae *netlink.AttributeEncoder) { device(ae, index) })
	if err != nil {
		return splitUnknown, err
	}
	err = attribute(answers, ringsSplit, func(ad *netlink.AttributeDecoder) { value = ad.Uint8() })
	if errors.Is(err, errNoAttribute) {
		return splitUnknown, nil
	}
	return value, err
}

func (f *family) setSplit(index uint32, value uint8) error {
	_, err := f.call(commandRingsSet, ethtoolVersion, netlink.Acknowledge,
		func(ae *netlink.AttributeEncoder) {
			device(ae, index)
			ae.Uint8(ringsSplit, value)
		})
	return err
}

func device(ae *netlink.AttributeEncoder, index uint32) {
	ae.Nested(ringsHeader, func(ae *netlink.AttributeEncoder) error {
		ae.Uint32(headerDeviceIndex, index)
		return nil
	})
}

var errNoAttribute = errors.New("the kernel's answer lacks the attribute")

// attribute calls read with the attribute of a type in the first answer.
func attribute(answers []genetlink.Message, which uint16,
	read func(*netlink.AttributeDecoder)) error {
	if len(answers) == 0 {
		return errNoAttribute
	}
	ad, err := netlink.NewAttributeDecoder(answers[0].Data)
	if err != nil {
		return err
	}
	found := false
	for ad.Next() {
		if ad.Type() == which {
			read(ad)
			found = true
		}
	}
	if err := ad.Err(); err != nil {
		return err
	}
	if !found {
		return errNoAttribute
	}
	return nil
}
