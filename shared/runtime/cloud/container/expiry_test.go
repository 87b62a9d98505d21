package container

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/base/pki/pkitest"
	"github.com/gatewright/gatewright/shared/base/telemetry"
	"github.com/gatewright/gatewright/shared/core/config"
)

// expiry is the part of a log line from which CloudWatch makes the metric.
type expiry struct {
	Certificate     string
	Until           time.Time
	CertificateDays float64
	AWS             struct {
		CloudWatchMetrics []struct {
			Namespace  string
			Dimensions [][]string
			Metrics    []struct{ Name string }
		}
	} `json:"_aws"`
}

// TestDaysUntilTheCertificateExpiresAreReported checks that the days until
// the served certificate expires are logged at the start and every hour.
func TestDaysUntilTheCertificateExpiresAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cert := pkitest.CA(t, "CA", time.Now()).Server(t, time.Now())
		source, err := newCertificate(testService(), config.Config{},
			taskEnv(map[string]string{config.VarRelayCertificate: cert.PEM() + cert.KeyPEM(t)}))
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		log := slog.New(slog.NewJSONHandler(&out, nil))
		if _, _, err := source.secure(t.Context(), newEcho(), log); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			source.reportExpiry(ctx, log, telemetry.CertificateDimension("gatewright-dev", "echo"))
			close(done)
		}()
		start := time.Now()
		time.Sleep(2*expiryInterval + time.Minute)
		synctest.Wait()
		stop()
		<-done
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 3 {
			t.Fatalf("%d lines in two hours, want 3:\n%s", len(lines), out.String())
		}
		for i, line := range lines {
			var got expiry
			if err := json.Unmarshal([]byte(line), &got); err != nil {
				t.Fatal(err)
			}
			want := telemetry.Days(start.Add(time.Duration(i)*expiryInterval), cert.NotAfter)
			if got.Certificate != "gatewright-dev/echo" || got.CertificateDays != want || !got.Until.Equal(cert.NotAfter) {
				t.Errorf("line %d = %+v, want %v days of gatewright-dev/echo until %s", i, got, want, cert.NotAfter)
			}
			if metrics := got.AWS.CloudWatchMetrics; len(metrics) != 1 || metrics[0].Namespace != telemetry.Namespace ||
				metrics[0].Dimensions[0][0] != "certificate" || metrics[0].Metrics[0].Name != telemetry.CertificateDays {
				t.Errorf("metrics of line %d = %+v, want certificateDays by certificate", i, metrics)
			}
		}
		if strings.Contains(out.String(), "PRIVATE") {
			t.Error("a line contains the private key, want none")
		}
	})
}

// TestExpiredCertificateHasNegativeDays checks that an expired
// certificate has a negative number of days, so that the alarm stays on.
func TestExpiredCertificateHasNegativeDays(t *testing.T) {
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	for end, want := range map[time.Time]float64{
		now.Add(36 * time.Hour): 1.5, now: 0, now.Add(-48 * time.Hour): -2,
		now.AddDate(0, 0, 90): 90,
	} {
		if got := telemetry.Days(now, end); got != want {
			t.Errorf("telemetry.Days(%s, %s) = %v, want %v", now, end, got, want)
		}
	}
}

// TestProcessWithoutTLSReportsNothing checks that reportExpiry returns at once if the process has no certificate.
func TestProcessWithoutTLSReportsNothing(t *testing.T) {
	var none *certificate
	none.reportExpiry(t.Context(), slog.New(slog.DiscardHandler), "gatewright-dev/echo") // must return
}
