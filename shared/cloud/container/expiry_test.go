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

	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/pki/pkitest"
	"github.com/gatewright/gatewright/shared/telemetry"
)

// expiry is what CloudWatch reads of a line.
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

// TestDaysUntilTheCertificateExpiresAreReported at the start and each hour, of the certificate that is served.
func TestDaysUntilTheCertificateExpiresAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		its := pkitest.CA(t, "CA", time.Now()).Server(t, time.Now())
		own, err := certificateOf(declared(), config.Config{}, task(map[string]string{config.VarRelayCertificate: its.PEM() + its.KeyPEM(t)}))
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		log := slog.New(slog.NewJSONHandler(&out, nil))
		if _, _, err := own.secure(t.Context(), newEcho(), log); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			own.reportExpiry(ctx, log, telemetry.CertificateOf("gatewright-dev", "echo"))
			close(ended)
		}()
		began := time.Now()
		time.Sleep(2*expiryEvery + time.Minute)
		synctest.Wait()
		stop()
		<-ended
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 3 {
			t.Fatalf("%d lines in two hours, want 3:\n%s", len(lines), out.String())
		}
		for i, line := range lines {
			var got expiry
			if err := json.Unmarshal([]byte(line), &got); err != nil {
				t.Fatal(err)
			}
			want := telemetry.Days(began.Add(time.Duration(i)*expiryEvery), its.NotAfter)
			if got.Certificate != "gatewright-dev/echo" || got.CertificateDays != want || !got.Until.Equal(its.NotAfter) {
				t.Errorf("line %d = %+v, want %v days of gatewright-dev/echo until %s", i, got, want, its.NotAfter)
			}
			if of := got.AWS.CloudWatchMetrics; len(of) != 1 || of[0].Namespace != telemetry.Namespace || of[0].Dimensions[0][0] != "certificate" || of[0].Metrics[0].Name != telemetry.CertificateDays {
				t.Errorf("metrics of line %d = %+v, want certificateDays by certificate", i, of)
			}
		}
		if strings.Contains(out.String(), "PRIVATE") {
			t.Error("a line contains the private key")
		}
	})
}

// TestExpiredCertificateHasDaysBelowZero, whose alarm stays on.
func TestExpiredCertificateHasDaysBelowZero(t *testing.T) {
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	for end, want := range map[time.Time]float64{now.Add(36 * time.Hour): 1.5, now: 0, now.Add(-48 * time.Hour): -2, now.AddDate(0, 0, 90): 90} {
		if got := telemetry.Days(now, end); got != want {
			t.Errorf("telemetry.Days(%s, %s) = %v, want %v", now, end, got, want)
		}
	}
}

// TestProcessWithoutTLSReportsNothing, beside an emulator.
func TestProcessWithoutTLSReportsNothing(t *testing.T) {
	var none *certificate
	none.reportExpiry(t.Context(), slog.New(slog.DiscardHandler), "gatewright-dev/echo") // returns
}
