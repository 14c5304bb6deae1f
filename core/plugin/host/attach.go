package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"transportbench/core/plugin"
	"transportbench/core/plugin/internal/accept"
	"transportbench/core/plugin/internal/wire"
)

// Reattachments returns the running plugins in [plugin.EnvReattach], from rank 0, to which the host
// connects instead of starting processes. It returns none if the variable is not set.
func Reattachments() ([]plugin.Reattach, error) {
	return parseReattach(os.Getenv(plugin.EnvReattach))
}

// parseReattach reads consecutive JSON lists as one list.
func parseReattach(text string) ([]plugin.Reattach, error) {
	var all []plugin.Reattach
	decoder := json.NewDecoder(strings.NewReader(text))
	for {
		var list []plugin.Reattach
		err := decoder.Decode(&list)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w: copy the lines that `serve --debug` printed",
				plugin.EnvReattach, err)
		}
		for _, r := range list {
			if r.Network != "unix" && r.Network != "tcp" || r.Address == "" {
				return nil,
					fmt.Errorf(
						"%s: %q %q is not an address: copy the lines that `serve --debug` printed",
						plugin.EnvReattach, r.Network, r.Address)
			}
		}
		all = append(all, list...)
	}
}

// Attach connects to a running plugin, within StartTimeout. [Process.Kill] only closes the
// connection.
func Attach(ctx context.Context, r plugin.Reattach, opts LaunchOptions) (*Process, error) {
	if err := checkProtocol(r.Transport, r.ProtocolVersion); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	ctx, cancel := context.WithTimeout(ctx, opts.StartTimeout)
	defer cancel()
	dialer := func(ctx context.Context, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, r.Network, r.Address)
	}
	conn, err := grpc.NewClient("passthrough:///"+r.Transport,
		grpc.WithContextDialer(dialer),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithIdleTimeout(0),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)),
	)
	if err != nil {
		return nil, fmt.Errorf("plugin %s: %w", r.Transport, err)
	}
	description, err := (&Plugin{Name: r.Transport, Path: r.Address}).describeRunning(ctx,
		conn, opts)
	if err != nil {
		_ = conn.Close()
		var refused *refusal
		if errors.As(err, &refused) {
			return nil, refused.error
		}
		return nil, fmt.Errorf("plugin %s: no answer at %s (pid %d): is it still running? %w",
			r.Transport, r.Address, r.PID, err)
	}
	watching, unwatch := context.WithCancel(context.Background())
	p := &Process{
		name: r.Transport, pid: r.PID, description: description, exited: make(chan struct{}),
		grace: opts.KillGrace,
		detach: func() {
			unwatch()
			_ = conn.Close()
		},
	}
	p.Rank = accept.New(wire.NewClient(conn, p.lost))
	go watchConnection(watching, conn, p.exited)
	return p, nil
}
