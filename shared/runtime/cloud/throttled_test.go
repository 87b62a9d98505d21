package cloud

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/smithy-go"
)

// failingKMS is a KMS whose requests all fail with err.
type failingKMS struct{ err error }

func (f failingKMS) GenerateDataKeyWithoutPlaintext(
	context.Context, *kms.GenerateDataKeyWithoutPlaintextInput, ...func(*kms.Options),
) (*kms.GenerateDataKeyWithoutPlaintextOutput, error) {
	return nil, f.err
}

func (f failingKMS) Decrypt(context.Context, *kms.DecryptInput, ...func(*kms.Options)) (*kms.DecryptOutput, error) {
	return nil, f.err
}

// TestThrottlesOfKMSAreCounted checks that each throttled request writes one log line,
// from which CloudWatch makes the metric of the table. Other errors are not logged.
func TestThrottlesOfKMSAreCounted(t *testing.T) {
	throttled := &smithy.GenericAPIError{
		Code:    "ThrottlingException",
		Message: "You have exceeded the rate at which you may call KMS.",
	}
	for name, tt := range map[string]struct {
		err  error
		want int
	}{
		"a throttle":          {throttled, 1},
		"a wrapped throttle":  {fmt.Errorf("operation error KMS: Decrypt: %w", throttled), 1},
		"another refusal":     {&smithy.GenericAPIError{Code: "AccessDeniedException"}, 0},
		"a broken connection": {errors.New("broken pipe: ThrottlingException"), 0},
		"a success":           {nil, 0},
	} {
		var out bytes.Buffer
		c := countedKMS{failingKMS{tt.err}, "gatewright-dev", func() time.Time {
			return time.UnixMilli(1_700_000_000_000)
		}, slog.New(slog.NewJSONHandler(&out, nil))}
		_, err := c.Decrypt(t.Context(), &kms.DecryptInput{CiphertextBlob: []byte("secret")})
		_, generateErr := c.GenerateDataKeyWithoutPlaintext(t.Context(), &kms.GenerateDataKeyWithoutPlaintextInput{})
		if !errors.Is(err, tt.err) || !errors.Is(generateErr, tt.err) {
			t.Errorf("%s: Decrypt() = %v, GenerateDataKeyWithoutPlaintext() = %v, want %v", name, err, generateErr, tt.err)
		}
		lines := strings.Count(out.String(), "\n")
		if lines != 2*tt.want || strings.Contains(out.String(), "secret") {
			t.Errorf("%s: log has %d lines, want %d without a secret: %s", name, lines, 2*tt.want, out.String())
		}
		for line := range strings.Lines(out.String()) {
			var record struct {
				Table     string `json:"table"`
				Throttles int    `json:"keyThrottles"`
				Metadata  struct {
					CloudWatchMetrics []struct{ Dimensions [][]string }
				} `json:"_aws"`
			}
			if err := json.Unmarshal([]byte(line), &record); err != nil {
				t.Fatal(err)
			}
			if m := record.Metadata.CloudWatchMetrics; record.Table != "gatewright-dev" || record.Throttles != 1 ||
				len(m) != 1 || fmt.Sprint(m[0].Dimensions) != "[[table]]" {
				t.Errorf("%s: log line = %s, want one throttle of gatewright-dev by table", name, line)
			}
		}
	}
}
