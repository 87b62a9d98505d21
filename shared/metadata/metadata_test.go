package metadata_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/metadata"
)

const secret = "s3cr3t-value"

// ofSize is an object of so many bytes.
func ofSize(n int) string { return `{"a":"` + strings.Repeat("x", n-len(`{"a":""}`)) + `"}` }

func TestObjectIsKeptAsItWasWrittenWithoutSpace(t *testing.T) {
	for text, want := range map[string]string{
		"":     "",
		"null": "",
		"{}":   "{}",
		" {\"orgId\": 1234,\n \"big\": 12345678901234567890} ": `{"orgId":1234,"big":12345678901234567890}`,
		ofSize(metadata.MaxBytes):                              ofSize(metadata.MaxBytes),
		ofSize(metadata.MaxBytes) + " ":                        ofSize(metadata.MaxBytes),
	} {
		var wrong fault.Fields
		if got := metadata.Read(&wrong, json.RawMessage(text)); got != want || wrong.Err() != nil {
			t.Errorf("%.60s: got %.60s, %v, want %.60s", text, got, wrong.Err(), want)
		}
	}
}

func TestWhatIsNoObjectOrTooLongIsRefusedWithoutItsText(t *testing.T) {
	for name, text := range map[string]string{
		"no object": `["` + secret + `"]`, "no JSON": `{"` + secret + `"}`, "empty text": " ", "no UTF-8": `{"` + secret + "\":\"\xff\"}",
		"long": `{"` + secret + `":` + ofSize(metadata.MaxBytes-len(`{"":}`)-len(secret)+1) + `}`,
	} {
		var wrong fault.Fields
		metadata.Read(&wrong, json.RawMessage(text))
		if len(wrong) != 1 || wrong[0].Field != "metadata" || strings.Contains(wrong.Err().Error(), secret) {
			t.Errorf("%s: %v", name, wrong.Err())
		}
	}
}
