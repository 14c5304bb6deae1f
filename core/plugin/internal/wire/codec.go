package wire

import (
	"encoding/json"
	"fmt"
	"slices"

	"google.golang.org/grpc/encoding"

	"transportbench/core/base/record"
)

// codecName is the gRPC content subtype of the control service. go-plugin's own services on the
// same connection keep protobuf.
const codecName = "transportbench-json"

func init() { encoding.RegisterCodec(jsonCodec{}) }

// jsonCodec encodes messages as JSON, so that the Go types of core/base/record are the only
// definition of what travels and is later written into results.
type jsonCodec struct{}

func (jsonCodec) Name() string { return codecName }

// Marshal puts the failure of a value that JSON does not have in the place of an answer with that
// value.
func (jsonCodec) Marshal(message any) ([]byte, error) {
	text, err := json.Marshal(message)
	if wrong := record.NotFinite(err); wrong != nil {
		if answer, ok := message.(interface{ failed(*failure) any }); ok {
			return json.Marshal(answer.failed(encodeFailure(wrong, 0)))
		}
	}
	return text, err
}

func (jsonCodec) Unmarshal(data []byte, message any) error {
	if text, ok := message.(*answer); ok {
		*text = slices.Clone(data)
		return nil
	}
	if err := json.Unmarshal(data, message); err != nil {
		return fmt.Errorf("%w; host and plugin are of different versions", err)
	}
	return nil
}

// answer is a message of the plugin before it is decoded. The host decodes it itself because gRPC
// would turn the error into text.
type answer []byte
