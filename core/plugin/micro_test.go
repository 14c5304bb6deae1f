package plugin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/transport"
)

// microDriver reports made-up measurements.
type microDriver struct {
	transport.Driver
	fails error
}

func (microDriver) Info() transport.Info {
	return transport.Info{Name: "test", Options: []transport.Option{
		{Name: "lane", Type: transport.TypeString}}}
}

func (microDriver) Microbenchmarks() []string { return []string{"read", "write"} }

func (d microDriver) Microbenchmark(_ context.Context, o transport.Values, wanted func(string) bool,
	t time.Duration, report func(transport.Measurement) error) error {
	for _, name := range d.Microbenchmarks() {
		if wanted(name) {
			if err := report(transport.Measurement{Name: name + o.String("lane"),
				Latency: float64(t)}); err != nil {
				return err
			}
		}
	}
	return d.fails
}

func runMicro(t *testing.T, d transport.Driver, request string) (code int,
	answers []record.MicroAnswer) {
	var out, complaints bytes.Buffer
	code = micro(d, request, &out, &complaints)
	for decoder := json.NewDecoder(&out); decoder.More(); {
		var a record.MicroAnswer
		require.NoError(t, decoder.Decode(&a))
		answers = append(answers, a)
	}
	return code, answers
}

func TestMicro(t *testing.T) {
	code, answers := runMicro(t, microDriver{},
		`{"options":{"lane":"7"},"names":["write"],"duration_ns":5}`)
	require.Equal(t, exitOK, code)
	require.Equal(t, []record.MicroAnswer{
		{Measurement: transport.Measurement{Name: "write7", Latency: 5}}}, answers)
	code, answers = runMicro(t, microDriver{}, `{}`)
	require.Equal(t, exitOK, code)
	require.Len(t, answers, 2)
}

func TestMicroRefuses(t *testing.T) {
	for request, says := range map[string]string{
		`{"names":["raed"]}`:       `no microbenchmark "raed"; did you mean "read"?`,
		`{"options":{"lain":"x"}}`: `did you mean "lane"?`,
		`no JSON`:                  "micro:",
	} {
		code, answers := runMicro(t, microDriver{}, request)
		require.Equal(t, exitInternal, code)
		require.Contains(t, answers[len(answers)-1].Error, says)
	}
	if unavailable := machine.CheckCounters(); unavailable != nil {
		code, answers := runMicro(t, microDriver{}, `{"counters":true}`)
		require.Equal(t, exitInternal, code)
		require.Equal(t, unavailable.Error(), answers[0].Error)
	}
	_, answers := runMicro(t, microDriver{fails: errors.New("no device")}, `{}`)
	require.Equal(t, "no device", answers[2].Error)
	var none struct{ transport.Driver }
	none.Driver = plainDriver{}
	_, answers = runMicro(t, none, `{}`)
	require.Contains(t, answers[0].Error, "has no microbenchmarks but setup")
}

type plainDriver struct{ transport.Driver }

func (plainDriver) Info() transport.Info { return transport.Info{Name: "plain"} }
