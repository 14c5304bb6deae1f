package config

import (
	"fmt"
	"slices"
	"strings"

	"transportbench/core/fabric/suggest"
)

// Model is the shape of a language model, as far as its cache of keys and values depends on it.
type Model struct {
	Name   string
	Layers int
	// KVHeads heads of HeadSize elements have keys and values (grouped-query attention). Without
	// them, a layer has one vector of Latent elements, with its rotary part (multi-head latent
	// attention).
	KVHeads, HeadSize, Latent int
	ElementBytes              int
}

// models are the shapes in the config.json of each model on Hugging Face, with elements of 16 bits.
var models = []Model{
	{Name: "llama-3.1-8b", Layers: 32, KVHeads: 8, HeadSize: 128, ElementBytes: 2},
	{Name: "llama-3.1-70b", Layers: 80, KVHeads: 8, HeadSize: 128, ElementBytes: 2},
	{Name: "llama-3.1-405b", Layers: 126, KVHeads: 8, HeadSize: 128, ElementBytes: 2},
	{Name: "deepseek-v3", Layers: 61, Latent: 512 + 64, ElementBytes: 2},
}

// BytesPerToken returns what a token takes in the cache of the whole model.
func (m *Model) BytesPerToken() Size {
	elements := 2 * m.KVHeads * m.HeadSize
	if m.KVHeads == 0 {
		elements = m.Latent
	}
	return Size(m.Layers * elements * m.ElementBytes)
}

// ModelNames returns the names of the known models.
func ModelNames() []string {
	names := make([]string, len(models))
	for i := range models {
		names[i] = models[i].Name
	}
	return names
}

// ModelByName returns the model with a name.
func ModelByName(name string) (*Model, error) {
	names := ModelNames()
	at := slices.Index(names, strings.ToLower(name))
	if at < 0 {
		return nil, fmt.Errorf("%q is not one of %s%s; for another one use --bytes-per-token",
			shorten(name), strings.Join(names, ", "), suggest.For(name, names))
	}
	return &models[at], nil
}
