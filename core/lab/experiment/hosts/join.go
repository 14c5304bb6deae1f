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
// start before the coordinator does. It returns a [*RefusedError] at once.
func Join(ctx context.Context, ticket Ticket, hello Hello, patience time.Duration) (net.Conn,
	error) {
	config, err := ticket.Token.config(agentRole, coordinatorRole)
	if err != nil {
		return nil, err
	}
	end := time.Now().Add(patience)
	for {
		var failures []string
		for _, address := range ticket.Addresses {
			conn, err := dial(ctx, address, config, hello)
			var refused *RefusedError
			if err == nil || errors.As(err, &refused) {
				return conn, err
			}
			failures = append(failures, strings.TrimPrefix(err.Error(), "dial tcp "))
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("join the coordinator: %s; is its port open to this host, and "+
				"is it the ticket of this run?", strings.Join(failures, "; "))
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(retryPause):
		}
	}
}

func dial(ctx context.Context, address string, config *tls.Config, hello Hello) (net.Conn, error) {
	dialer := net.Dialer{Timeout: dialTimeout}
	raw, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	conn, err := handshake(raw, tls.Client, config, joinTimeout)
	if err == nil {
		err = greet(conn, hello)
	}
	if err != nil {
		_ = raw.Close()
		var refused *RefusedError
		if errors.As(err, &refused) {
			return nil, err
		}
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	return conn, nil
}

// greet sends hello and reads the answer.
func greet(conn *tls.Conn, hello Hello) error {
	if local, err := netip.ParseAddrPort(conn.LocalAddr().String()); err == nil {
		hello.Address = local.Addr().Unmap()
	}
	if err := writeMessage(conn, hello); err != nil {
		return err
	}
	var a answer
	if err := readMessage(conn, longestAnswer, &a); err != nil {
		return err
	}
	if a.Refusal != "" {
		return &RefusedError{printable.Text(a.Refusal)}
	}
	return conn.SetDeadline(time.Time{})
}
