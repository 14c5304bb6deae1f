package rank

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/transport"
	"transportbench/core/transporttest/memory"
)

func deviceConfig() config.Config {
	cfg := testConfig()
	cfg.ReadRatio, cfg.ValueSize = 0, config.FixedSize(5000)
	return cfg
}

// TestValuesInDeviceMemory checks that written values stay in device memory, and that the last
// ones are copied to the host and verified after each window.
func TestValuesInDeviceMemory(t *testing.T) {
	for name, shape := range map[string]func(*config.Config){
		"writes": func(*config.Config) {},
		"writes and lookups": func(c *config.Config) {
			require.NoError(t, c.Mix.Set("write:0.5,lookup:0.5"))
		},
		"a pattern": func(c *config.Config) {
			require.NoError(t, c.Pattern.Set("write:7"))
		},
		"sizes from 0": func(c *config.Config) {
			require.NoError(t, c.ValueSize.Set("histogram:0=1,1=1,600=1,601=1"))
		},
		"a mesh":     func(c *config.Config) { c.Topology = config.TopologyMeshDirect },
		"a sink":     func(c *config.Config) { c.Service = config.ServiceSink },
		"by proxies": func(c *config.Config) { c.Topology = config.TopologyMeshProxied },
	} {
		for _, sends := range []bool{false, true} {
			if sends && name == "by proxies" {
				continue // it is refused
			}
			t.Run(fmt.Sprintf("%s/sends=%v", name, sends), func(t *testing.T) {
				cfg := deviceConfig()
				if sends {
					cfg.ValueSize = config.FixedSize(600) // few enough bytes to be repeated
				}
				shape(&cfg)
				ranks := cluster(t, &memory.Device{Sends: sends}, cfg, config.IdleYield)
				for range 2 {
					first, others := runUntil(t, ranks, 1, 2000)
					for _, c := range others[0].Clients {
						require.Empty(t, c.Failures)
						require.Equal(t, c.Ops(), c.VerifiedKeys)
					}
					d := first.Daemons[0]
					require.Zero(t, d.Rejected)
					require.Positive(t, d.Device.Values)
					require.LessOrEqual(t, d.Device.Values, d.Puts)
					require.Zero(t, d.Device.Wrong)
					require.Positive(t, d.Device.Verified)
					require.LessOrEqual(t, d.Device.Verified, d.Device.Values+
						uint64(4*cfg.InFlight), "the window's, and the drain's")
				}
			})
		}
	}
}

// TestValuesAreSentFromDeviceMemory damages every slot of the sender's device memory. The daemon
// finds it, because the value comes from there and nowhere else.
func TestValuesAreSentFromDeviceMemory(t *testing.T) {
	driver := wrapped{&memory.Device{Sends: true},
		func(w transport.Worker) transport.Worker { return damagedSource{deviceWorkerOf(w)} }}
	cfg := deviceConfig()
	cfg.Service = config.ServiceSink
	first, _ := runUntil(t, cluster(t, driver, cfg, config.IdleYield), 1, 100)
	require.Positive(t, first.Daemons[0].Device.Wrong)
	require.Zero(t, first.Daemons[0].Device.Verified)
}

// deviceWorker is a worker with device memory.
type deviceWorker struct {
	transport.Worker
	transport.DeviceWorker
}

func deviceWorkerOf(w transport.Worker) deviceWorker {
	return deviceWorker{w, w.(transport.DeviceWorker)}
}

// damagedSource is a worker that writes another last byte to device memory.
type damagedSource struct{ deviceWorker }

func (d damagedSource) WriteDevice(slot uint16, payload []byte) error {
	damaged := slices.Clone(payload)
	damaged[len(damaged)-1] ^= 1
	return d.deviceWorker.WriteDevice(slot, damaged)
}

// TestDamageInDeviceMemoryIsFound damages the header, the ends of the value, and exchanges values.
func TestDamageInDeviceMemoryIsFound(t *testing.T) {
	for name, damage := range map[string]func([]byte){
		"key":        func(p []byte) { p[1] ^= 1 },
		"checksum":   func(p []byte) { p[15] ^= 1 },
		"first byte": func(p []byte) { p[16] ^= 1 },
		"last byte":  func(p []byte) { p[len(p)-1] ^= 0x80 },
	} {
		t.Run(name, func(t *testing.T) {
			for _, service := range []config.Service{config.ServiceStore, config.ServiceSink} {
				cfg := deviceConfig()
				cfg.Service = service
				first, others := runUntil(t, cluster(t, &memory.Device{Damage: damage}, cfg,
					config.IdleYield), 1, 100)
				require.Empty(t, others[0].Clients[0].Failures, "nobody looks in the window")
				require.Positive(t, first.Daemons[0].Device.Wrong)
				require.Zero(t, first.Daemons[0].Device.Verified)
			}
		})
	}
}

// blind is a worker that cannot read device memory.
type blind struct{ transport.Worker }

// forgetful overwrites device memory at once.
type forgetful struct{ deviceWorker }

func (forgetful) ReadDevice(transport.PeerID, uint64, []byte) (bool, error) { return false, nil }

// broken has a device that fails.
type broken struct{ deviceWorker }

func (broken) ReadDevice(transport.PeerID, uint64, []byte) (bool, error) {
	return false, errors.New("the device is gone")
}

func TestDeviceMemoryThatCannotBeRead(t *testing.T) {
	ranks := cluster(t, wrapped{&memory.Device{},
		func(w transport.Worker) transport.Worker { return forgetful{deviceWorkerOf(w)} }},
		deviceConfig(),
		config.IdleYield)
	first, _ := runUntil(t, ranks, 1, 100)
	require.Positive(t, first.Daemons[0].Device.Values)
	require.Zero(t, first.Daemons[0].Device.Verified, "the check `verified` makes an error of that")

	ranks = cluster(t, wrapped{&memory.Device{}, func(w transport.Worker) transport.Worker {
		return broken{deviceWorkerOf(w)}
	}}, deviceConfig(), config.IdleYield)
	_, _, err := runAll(t, ranks, record.Window{Duration: 20 * time.Millisecond, SampleEvery: 1})
	require.ErrorContains(t, err, "copy a value from device memory: the device is gone")
}

// TestDeviceMemoryIsRefused checks workloads that read values, and transports that cannot read
// them back.
func TestDeviceMemoryIsRefused(t *testing.T) {
	prepare := func(driver transport.Driver, change func(*config.Config)) error {
		cfg := deviceConfig()
		change(&cfg)
		r := New(driver, slog.New(slog.DiscardHandler))
		cpus := []int{-1}
		if cfg.Topology != config.TopologyClientServer {
			cpus = []int{-1, -1} // each rank has a client, too
		}
		_, err := r.Prepare(t.Context(), record.Plan{Rank: 0, Config: cfg, CPUs: cpus,
			Idle: config.IdleYield})
		return errors.Join(err, r.Close(context.Background()))
	}
	require.NoError(t, prepare(&memory.Device{}, func(*config.Config) {}))
	for _, change := range []func(*config.Config){
		func(c *config.Config) { c.ReadRatio = 0.1 },
		func(c *config.Config) { c.Mix = config.Mix{{Op: config.OpRMW, Share: 1}} },
		func(c *config.Config) { c.Pattern = config.Pattern{{Op: config.OpRead, Count: 1}} },
		func(c *config.Config) { c.Service, c.ReadRatio = config.ServiceEcho, 1 },
	} {
		err := prepare(&memory.Device{}, change)
		require.ErrorIs(t, err, transport.ErrUnsupported)
		require.ErrorContains(t, err, "--profile bulk")
		require.NoError(t, prepare(memory.NewDriver(), change),
			"of other transports nothing is asked")
	}
	sends := &memory.Device{Sends: true}
	err := prepare(sends, func(c *config.Config) { c.Topology = config.TopologyMeshDirect })
	require.ErrorIs(t, err, transport.ErrUnsupported)
	require.ErrorContains(t, err, "writes its requests as it goes",
		"values of 5000 bytes are too large to be repeated")
	err = prepare(sends, func(c *config.Config) { c.Topology = config.TopologyMeshProxied })
	require.ErrorContains(t, err, "proxies forward them from host memory")
	err = prepare(wrapped{&memory.Device{},
		func(w transport.Worker) transport.Worker { return blind{w} }}, func(*config.Config) {})
	require.ErrorContains(t, err, "cannot read them back")
}
