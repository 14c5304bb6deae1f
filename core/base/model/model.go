package model

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
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
func (m *Model) BytesPerToken() int {
	elements := 2 * m.KVHeads * m.HeadSize
	if m.KVHeads == 0 {
		elements = m.Latent
	}
	return m.Layers * elements * m.ElementBytes
}

// LayerBytes returns what a token takes in a layer of the cache, on one of some accelerators. Each
// has some of the heads, or all of them one, and each has the whole latent vector. It returns 0 if
// the heads cannot be shared evenly.
func (m *Model) LayerBytes(accelerators int) int {
	layer, n := m.BytesPerToken()/m.Layers, max(accelerators, 1)
	switch {
	case m.KVHeads == 0:
		return layer
	case n >= m.KVHeads && n%m.KVHeads == 0:
		return layer / m.KVHeads
	case m.KVHeads%n == 0:
		return layer / n
	}
	return 0
}

// Names returns the names of the known models.
func Names() []string {
	names := make([]string, len(models))
	for i := range models {
		names[i] = models[i].Name
	}
	return names
}

// Name is the name of a known model, or a shape written as
// "layers=32,kv-heads=8,head-size=128,bytes=2" or "layers=61,latent=576,bytes=2". The zero value is
// none.
type Name string

const (
	formHeads  = "layers=%d,kv-heads=%d,head-size=%d,bytes=%d"
	formLatent = "layers=%d,latent=%d,bytes=%d"
)

func (n Name) String() string { return cmp.Or(string(n), none) }

// Set parses the format of String.
func (n *Name) Set(text string) error {
	*n = ""
	if text == "" || text == none {
		return nil
	}
	m, err := parseModel(text)
	if err == nil {
		*n = m.name()
	}
	return err
}

// Shape returns the shape of the model, or nil for none.
func (n Name) Shape() *Model {
	m, _ := parseModel(string(n))
	return m
}

// name is the inverse of Shape.
func (m *Model) name() Name {
	switch {
	case m.Name != "":
		return Name(m.Name)
	case m.KVHeads > 0:
		return Name(fmt.Sprintf(formHeads, m.Layers, m.KVHeads, m.HeadSize, m.ElementBytes))
	}
	return Name(fmt.Sprintf(formLatent, m.Layers, m.Latent, m.ElementBytes))
}

func parseModel(text string) (*Model, error) {
	heads, latent := new(Model), new(Model)
	_, _ = fmt.Sscanf(text, formHeads, &heads.Layers, &heads.KVHeads, &heads.HeadSize,
		&heads.ElementBytes)
	_, _ = fmt.Sscanf(text, formLatent, &latent.Layers, &latent.Latent, &latent.ElementBytes)
	for _, m := range []*Model{heads, latent} {
		if string(m.name()) == text { // Sscanf ignores what follows the form
			return m, m.check()
		}
	}
	names := Names()
	at := slices.Index(names, strings.ToLower(text))
	if at < 0 {
		return nil, fmt.Errorf("%.40q is not one of %s%s; for another one use the path of its "+
			"config.json", text, strings.Join(names, ", "), suggest.For(text, names))
	}
	return &models[at], nil
}

// none is no model in flags and files.
const none = "none"

// maxToken bounds the bytes of a token.
const maxToken = 1 << 30

// check checks a shape that is not a known one.
func (m *Model) check() error {
	const maxNumber, maxBytes = 1 << 16, 8
	for _, n := range []int{m.Layers, max(m.KVHeads, m.Latent), max(m.HeadSize, m.Latent)} {
		if n < 1 || n > maxNumber {
			return fmt.Errorf("the shape %q has a number out of range (1 to %d)", m.name(),
				maxNumber)
		}
	}
	if m.ElementBytes < 1 || m.ElementBytes > maxBytes || m.BytesPerToken() > maxToken {
		return fmt.Errorf("the shape %q has elements of more than %d bytes, or tokens of more "+
			"than %d bytes", m.name(), maxBytes, maxToken)
	}
	return nil
}

// maxModelFile bounds the file of a model in bytes.
const maxModelFile = 1 << 20

// Read is Set for text that may also be the path of a model's config.json, as on Hugging Face. It
// reads the file at once, so that results have its content.
func (n *Name) Read(text string, readFile func(path string, limit int64) ([]byte, error)) error {
	wrong := n.Set(text)
	if wrong == nil {
		return nil
	}
	content, err := readFile(text, maxModelFile)
	if errors.Is(err, fs.ErrNotExist) {
		return wrong
	} else if err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	m, err := modelOf(content)
	if err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	*n = m.name()
	return nil
}

// modelOf returns the shape in a config.json.
func modelOf(content []byte) (*Model, error) {
	var file struct {
		Layers  int    `json:"num_hidden_layers"`
		Heads   int    `json:"num_attention_heads"`
		KVHeads int    `json:"num_key_value_heads"`
		Head    int    `json:"head_dim"`
		Hidden  int    `json:"hidden_size"`
		Latent  int    `json:"kv_lora_rank"`
		Rotary  int    `json:"qk_rope_head_dim"`
		Type    string `json:"torch_dtype"`
		DType   string `json:"dtype"`
	}
	if err := json.Unmarshal(content, &file); err != nil {
		return nil, fmt.Errorf("not a model's config.json: %w", err)
	}
	m := &Model{Layers: file.Layers, KVHeads: cmp.Or(file.KVHeads, file.Heads),
		HeadSize:     cmp.Or(file.Head, file.Hidden/max(file.Heads, 1)),
		ElementBytes: elementBytes(cmp.Or(file.Type, file.DType))}
	if file.Latent > 0 {
		m.KVHeads, m.HeadSize, m.Latent = 0, 0, file.Latent+file.Rotary
	}
	return m, m.check()
}

// elementBytes returns the size of an element by the name of its type.
func elementBytes(name string) int {
	switch {
	case strings.Contains(name, "8"): // float8_e4m3fn, int8
		return 1
	case strings.Contains(name, "32"):
		return 4
	}
	return 2
}
