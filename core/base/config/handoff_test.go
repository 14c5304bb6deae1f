package config

import (
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"
)

func resolveHandoff(set map[string]string) (Config, error) {
	files := map[string]string{
		"gqa.json": `{"num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 4,
			"hidden_size": 1024, "torch_dtype": "bfloat16"}`,
		"mla.json": `{"num_hidden_layers": 61, "num_attention_heads": 128, "kv_lora_rank": 512,
			"qk_rope_head_dim": 64, "torch_dtype": "float8_e4m3fn"}`,
		"torn.json":  `{"num_hidden_layers": 2`,
		"huge.json":  `{"num_hidden_layers": 9000000000, "kv_lora_rank": 512}`,
		"wrong.json": `{"num_hidden_layers": 65536, "kv_lora_rank": 65536}`,
	}
	c, _, err := Resolve(Layer{Values: set, ReadFile: func(path string, _ int64) ([]byte, error) {
		if text, has := files[path]; has {
			return []byte(text), nil
		}
		return nil, fs.ErrNotExist
	}})
	return c, err
}

// TestHandoff computes the messages of hand-offs by hand.
func TestHandoff(t *testing.T) {
	c, err := resolveHandoff(map[string]string{"profile": "kvhandoff"})
	require.NoError(t, err)
	require.Equal(t, LoadBursts, c.Load())
	// A layer of a token has 2 x 1 of 8 heads x 128 elements of 2 bytes.
	require.Equal(t, 16*2*1*128*2, c.ValueSize.Max())
	require.Equal(t, 512/16, c.FirstPart())
	require.Equal(t, 80*512/16, c.Iteration())
	require.Equal(t, []any{0.0, DistributionUniform, 64}, []any{c.ReadRatio, c.Distribution,
		c.InFlight})
	require.InDelta(t, 256<<20, c.Keys*c.LargestMessage(), 1<<14)
	require.InDelta(t, 512, c.TokensPerOperation()*float64(c.Iteration()), 1e-9)
	_, replayed := c.Requests()
	require.False(t, replayed)

	c, err = resolveHandoff(map[string]string{"profile": "kvhandoff", "handoff": "pull:500",
		"burst": "3", "model": "gqa.json", "tensor-parallel": "2", "in-flight": "5", "keys": "9"})
	require.NoError(t, err)
	require.EqualValues(t, "layers=2,kv-heads=4,head-size=128,bytes=2", c.Model)
	require.Equal(t, 16*2*2*128*2, c.ValueSize.Max())
	require.Equal(t, 3*32, c.FirstPart(), "500 tokens have 32 pages")
	require.Equal(t, 2*3*32, c.Iteration())
	require.Equal(t, []any{1.0, 5, 9}, []any{c.ReadRatio, c.InFlight, c.Keys})
	require.InDelta(t, 1500, c.TokensPerOperation()*float64(c.Iteration()), 1e-9)

	c, err = resolveHandoff(map[string]string{"profile": "kvhandoff", "model": "mla.json",
		"tokens-per-block": "0"})
	require.NoError(t, err)
	require.True(t, c.Bulk())
	total := 512 * 61 * (512 + 64) // each accelerator has the whole latent vector
	require.Equal(t, (total+512<<10-1)/(512<<10), c.Iteration())
	require.Equal(t, c.Iteration(), c.FirstPart(), "no layer is there before the end")
	require.InDelta(t, total, c.Iteration()*c.ValueSize.Max(), float64(c.Iteration()))
	require.Equal(t, []any{DistributionSequential, 12}, []any{c.Distribution, c.InFlight})

	c, err = resolveHandoff(map[string]string{"profile": "kvhandoff", "tokens-per-block": "0",
		"value-size": "4MiB"})
	require.NoError(t, err)
	require.Equal(t, 5, c.Iteration(), "20 MiB")
}

func TestHandoffErrors(t *testing.T) {
	for _, test := range []struct{ option, value, want string }{
		{"handoff", "push", "is not push or pull"},
		{"handoff", "push:0", "from 1 to 1048576"},
		{"handoff", "none", "--tensor-parallel: needs a hand-off"},
		{"handoff", "push:1048576", ""},
		{"burst", "65", "out of range"},
		{"model", "none", "needs the shape of a model"},
		{"model", "llama-3.1-8", "did you mean"},
		{"model", "torn.json", "not a model's config.json"},
		{"model", "huge.json", "out of range"},
		{"model", "wrong.json", "tokens of more than 1073741824 bytes"},
		{"model", "layers=2,latent=3,bytes=9", "more than 8 bytes"},
		{"model", "layers=2,latent=3,bytes=2GiB", "is not one of"},
		{"tensor-parallel", "3", "cannot share 8 heads evenly"},
		{"bytes-per-token", "7", "leave it out"},
		{"value-size", "64", "leave it out"},
		{"read-ratio", "1", "has its own operations"},
		{"pattern", "read:2", "has its own operations"},
		{"mix", "read:1", "has its own operations"},
		{"rate", "5000", "ends no hand-off before the next"},
		{"class", "rpc:64B", "no pages"},
		{"service", "sink", "no pages"},
	} {
		_, err := resolveHandoff(map[string]string{"profile": "kvhandoff",
			test.option: test.value})
		if test.want == "" {
			require.NoError(t, err, test)
			continue
		}
		require.ErrorContains(t, err, test.want, "%s", test)
		require.NotContains(t, err.Error(), "\n")
	}
	_, err := resolveHandoff(map[string]string{"profile": "kvhandoff", "burst": "64",
		"handoff": "push:1048576", "tokens-per-block": "1"})
	require.ErrorContains(t, err, "larger pages")
}
