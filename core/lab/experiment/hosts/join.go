package hosts

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"transportbench/core/base/printable"
)

// RefusedError reports that the coordinator is reached and does not want this agent.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return "the coordinator refuses this agent: " + e.Reason }

const (
	dialTimeout = 5 * time.Second
	retryPause  = 200 * time.Millisecond
)

// Join dials the coordinator of a ticket and returns the connection, over which the coordinator
// then calls this agent. It tries all addresses again until one answers, for patience: agents may
// start before the coordinator does. It returns a [*RefusedError] at once. Either end may be silent
// for silence.
func Join(ctx context.Context, ticket Ticket, hello Hello, patience time.Duration) (conn net.Conn,
	silence time.Duration, err error) {
	config, err := ticket.Token.config(agentRole, coordinatorRole)
	if err != nil {
		return nil, 0, err
	}
	end := time.Now().Add(patience)
	for {
		var failures []string
		for _, address := range ticket.Addresses {
			conn, silence, err := dial(ctx, address, config, hello)
			var refused *RefusedError
			if err == nil || errors.As(err, &refused) {
				return conn, silence, err
			}
			failures = append(failures, strings.TrimPrefix(err.Error(), "dial tcp "))
		}
		if time.Now().After(end) {
			return nil, 0, fmt.Errorf("join the coordinator: %s; is its port open to this host, "+
				"and is it the ticket of this run?", strings.Join(failures, "; "))
		}
		select {
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		case <-time.After(retryPause):
		}
	}
}

func dial(ctx context.Context, address string, config *tls.Config, hello Hello) (_ net.Conn,
	silence time.Duration, err error) {
	dialer := net.Dialer{Timeout: dialTimeout}
	raw, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, 0, err
	}
	conn, err := handshake(raw, tls.Client, config, joinTimeout)
	if err == nil {
		silence, err = greet(conn, hello)
	}
	if err == nil {
		err = watchPeer(raw, silence)
	}
	if err != nil {
		_ = raw.Close()
		var refused *RefusedError
		if errors.As(err, &refused) {
			return nil, 0, err
		}
		return nil, 0, fmt.Errorf("%s: %w", address, err)
	}
	return conn, silence, nil
}

// greet sends hello, reads the answer, and returns how long either end may be silent.
func greet(conn *tls.Conn, hello Hello) (silence time.Duration, err error) {
	if local, err := netip.ParseAddrPort(conn.LocalAddr().String()); err == nil {
		hello.Address = local.Addr().Unmap()
	}
	if err := writeMessage(conn, hello); err != nil {
		return 0, err
	}
	var a answer
	if err := readMessage(conn, longestAnswer, &a); err != nil {
		return 0, err
	}
	switch {
	case a.Refusal != "":
		return 0, &RefusedError{printable.Text(a.Refusal)}
	case a.HostTimeout < MinTimeout || a.HostTimeout > MaxTimeout:
		return 0, fmt.Errorf("the coordinator waits %v for a silent host", a.HostTimeout)
	}
	return a.HostTimeout, conn.SetDeadline(time.Time{})
}
