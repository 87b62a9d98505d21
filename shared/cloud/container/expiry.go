package container

import (
	"context"
	"log/slog"
	"time"

	"github.com/gatewright/gatewright/shared/telemetry"
)

// expiryEvery is how often a process reports how long its certificate is still valid.
const expiryEvery = time.Hour

// reportExpiry logs now and each hour how many days are left until the served certificate expires. CloudWatch makes a metric of these lines.
// It returns when ctx ends, and at once without TLS. name is the certificate's (telemetry.CertificateOf).
//
// Nobody renews the certificate of a service for its operator, and a task reads it only at its start. So the process reports the expiry, and
// not a function that reads Parameter Store: the certificate there may be newer than the one that clients see.
func (c *certificate) reportExpiry(ctx context.Context, log *slog.Logger, name string) {
	if c == nil || c.opened == nil {
		return
	}
	every := time.NewTicker(expiryEvery)
	defer every.Stop()
	for {
		// All names have the same certificate, so that none is needed.
		if served, err := c.opened.Certificate(ctx, ""); err == nil && served != nil && served.Leaf != nil {
			now, end := time.Now(), served.Leaf.NotAfter
			log.LogAttrs(ctx, slog.LevelInfo, "certificate expiry",
				slog.String("certificate", name), slog.String("until", end.UTC().Format(time.RFC3339)),
				slog.Float64(telemetry.CertificateDays, telemetry.Days(now, end)), telemetry.Count(now, telemetry.CertificateDays, "certificate"))
		}
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
	}
}
