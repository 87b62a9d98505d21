package metadata_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/format/metadata"
)

const secret = "s3cr3t-value"

// objectOfSize returns an object of n bytes.
func objectOfSize(n int) string { return `{"a":"` + strings.Repeat("x", n-len(`{"a":""}`)) + `"}` }

func TestReadRemovesOnlySpace(t *testing.T) {
	for text, want := range map[string]string{
		"":     "",
		"null": "",
		"{}":   "{}",
		" {\"orgId\": 1234,\n \"big\": 12345678901234567890} ": `{"orgId":1234,"big":12345678901234567890}`,
		objectOfSize(metadata.MaxBytes):                        objectOfSize(metadata.MaxBytes),
		objectOfSize(metadata.MaxBytes) + " ":                  objectOfSize(metadata.MaxBytes),
	} {
		var problems fault.Fields
		if got := metadata.Read(&problems, json.RawMessage(text)); got != want || problems.Err() != nil {
			t.Errorf("Read(%.60s) = %.60s, problems %v, want %.60s and no problems", text, got, problems.Err(), want)
		}
	}
}

func TestInvalidMetadataIsRefusedWithoutValue(t *testing.T) {
	for name, text := range map[string]string{
		"not an object": `["` + secret + `"]`, "not JSON": `{"` + secret + `"}`, "only white space": " ",
		"invalid UTF-8": `{"` + secret + "\":\"\xff\"}",
		"too long":      `{"` + secret + `":` + objectOfSize(metadata.MaxBytes-len(`{"":}`)-len(secret)+1) + `}`,
	} {
		var problems fault.Fields
		metadata.Read(&problems, json.RawMessage(text))
		if len(problems) != 1 || problems[0].Field != "metadata" || strings.Contains(problems.Err().Error(), secret) {
			t.Errorf("%s: Read() problems = %v, want one of the field metadata without the secret", name, problems.Err())
		}
	}
}
