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

// refusing is a KMS that answers one error.
type refusing struct{ err error }

func (r refusing) GenerateDataKeyWithoutPlaintext(context.Context, *kms.GenerateDataKeyWithoutPlaintextInput, ...func(*kms.Options)) (*kms.GenerateDataKeyWithoutPlaintextOutput, error) {
	return nil, r.err
}

func (r refusing) Decrypt(context.Context, *kms.DecryptInput, ...func(*kms.Options)) (*kms.DecryptOutput, error) {
	return nil, r.err
}

// TestThrottlesOfKMSAreCounted: each refusal for too many requests is one line that CloudWatch makes a metric of, by the table; what else goes wrong is none.
func TestThrottlesOfKMSAreCounted(t *testing.T) {
	throttled := &smithy.GenericAPIError{Code: "ThrottlingException", Message: "You have exceeded the rate at which you may call KMS."}
	for name, tt := range map[string]struct {
		err  error
		want int
	}{
		"a throttle":              {throttled, 1},
		"one that is wrapped":     {fmt.Errorf("operation error KMS: Decrypt: %w", throttled), 1},
		"another refusal":         {&smithy.GenericAPIError{Code: "AccessDeniedException"}, 0},
		"a connection that broke": {errors.New("broken pipe: ThrottlingException"), 0},
		"a success":               {nil, 0},
	} {
		var out bytes.Buffer
		c := countedKMS{refusing{tt.err}, "gatewright-dev", func() time.Time { return time.UnixMilli(1_700_000_000_000) }, slog.New(slog.NewJSONHandler(&out, nil))}
		_, err := c.Decrypt(t.Context(), &kms.DecryptInput{CiphertextBlob: []byte("secret")})
		_, also := c.GenerateDataKeyWithoutPlaintext(t.Context(), &kms.GenerateDataKeyWithoutPlaintextInput{})
		if !errors.Is(err, tt.err) || !errors.Is(also, tt.err) {
			t.Errorf("%s: the errors are %v and %v", name, err, also)
		}
		lines := strings.Count(out.String(), "\n")
		if lines != 2*tt.want || strings.Contains(out.String(), "secret") {
			t.Errorf("%s: %d lines: %s", name, lines, out.String())
		}
		for line := range strings.Lines(out.String()) {
			var told struct {
				Table    string `json:"table"`
				Counted  int    `json:"keyThrottles"`
				Metadata struct {
					CloudWatchMetrics []struct{ Dimensions [][]string }
				} `json:"_aws"`
			}
			if err := json.Unmarshal([]byte(line), &told); err != nil {
				t.Fatal(err)
			}
			if m := told.Metadata.CloudWatchMetrics; told.Table != "gatewright-dev" || told.Counted != 1 || len(m) != 1 || fmt.Sprint(m[0].Dimensions) != "[[table]]" {
				t.Errorf("%s: the line is %s", name, line)
			}
		}
	}
}
