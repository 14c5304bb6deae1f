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
	"transportbench/core/plugin/internal/wire"
)

// Reattachments returns the plugins named in [plugin.EnvReattach], to which the
// host connects instead of starting any: the first is rank 0. It returns none
// where the variable is not set.
func Reattachments() ([]plugin.Reattach, error) {
	return parseReattach(os.Getenv(plugin.EnvReattach))
}

// parseReattach reads JSON lists behind each other, as one list.
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
			return nil, fmt.Errorf("%s: %w: copy the lines that `serve --debug` printed", plugin.EnvReattach, err)
		}
		for _, r := range list {
			if r.Network != "unix" && r.Network != "tcp" || r.Address == "" {
				return nil, fmt.Errorf("%s: %q %q is no address: copy the lines that `serve --debug` printed",
					plugin.EnvReattach, r.Network, r.Address)
			}
		}
		all = append(all, list...)
	}
}

// Attach connects to a plugin that runs already, within StartTimeout. Its
// process is not this host's: Kill closes the connection only.
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
	data, err := wire.NewClient(conn, nil).Describe(ctx)
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("plugin %s: no answer at %s (pid %d): is it still running? %w",
			r.Transport, r.Address, r.PID, err)
	}
	description, err := checkRunning(&Plugin{Name: r.Transport, Path: r.Address}, data, opts)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return attached(r, conn, description, opts), nil
}

func attached(r plugin.Reattach, conn *grpc.ClientConn, d plugin.Description, opts LaunchOptions) *Process {
	watching, unwatch := context.WithCancel(context.Background())
	p := &Process{
		name: r.Transport, pid: r.PID, description: d, exited: make(chan struct{}), grace: opts.KillGrace,
		detach: func() {
			unwatch()
			_ = conn.Close()
		},
	}
	p.Client = wire.NewClient(conn, p.lost)
	go watchConnection(watching, conn, p.exited)
	return p
}
