package container

import (
	"context"
	"log/slog"
	"time"

	"github.com/gatewright/gatewright/shared/base/telemetry"
)

// expiryInterval is the interval between two reports of the certificate's remaining validity.
const expiryInterval = time.Hour

// reportExpiry logs now and every hour the number of days until the served certificate expires. CloudWatch makes a
// metric from these lines. reportExpiry returns when ctx ends. Without TLS it returns at once. name is the
// certificate's name (telemetry.CertificateDimension).
//
// In AWS, the certificate of a service is not renewed automatically, and a task reads it only at its start. So the
// process itself reports the expiry. A function that reads Parameter Store could find a newer certificate than the
// served one.
func (c *certificate) reportExpiry(ctx context.Context, log *slog.Logger, name string) {
	if c == nil || c.source == nil {
		return
	}
	ticker := time.NewTicker(expiryInterval)
	defer ticker.Stop()
	for {
		// The certificate is the same for all names, so the name does not matter.
		if cert, err := c.source.Certificate(ctx, ""); err == nil && cert != nil && cert.Leaf != nil {
			now, end := time.Now(), cert.Leaf.NotAfter
			log.LogAttrs(ctx, slog.LevelInfo, "certificate expiry",
				slog.String("certificate", name), slog.String("until", end.UTC().Format(time.RFC3339)),
				slog.Float64(telemetry.CertificateDays, telemetry.Days(now, end)),
				telemetry.Count(now, telemetry.CertificateDays, "certificate"))
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
