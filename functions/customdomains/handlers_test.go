package customdomains

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/resource/customdomains"
)

func TestViewCertificate(t *testing.T) {
	validFrom := time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC)
	validTo, renewal := validFrom.Add(90*24*time.Hour), validFrom.Add(60*24*time.Hour)
	for _, tt := range []struct {
		in   *customdomains.Certificate
		want string
	}{
		{nil, "null"},
		{
			&customdomains.Certificate{Source: customdomains.Uploaded, Issuer: "CN=CA", ValidFrom: validFrom, ValidTo: validTo},
			`{"source":"uploaded","status":"active","issuer":"CN=CA","validFrom":"2026-03-14T09:26:53.000Z",` +
				`"validTo":"2026-06-12T09:26:53.000Z","renewsOn":null,"message":null}`,
		},
		{
			&customdomains.Certificate{
				Source: customdomains.ACME, Issuer: "CN=CA", ValidFrom: validFrom, ValidTo: validTo,
				Operation: "certify-1", Next: renewal,
			},
			`{"source":"acme","status":"active","issuer":"CN=CA","validFrom":"2026-03-14T09:26:53.000Z",` +
				`"validTo":"2026-06-12T09:26:53.000Z","renewsOn":"2026-05-13T09:26:53.000Z","message":null}`,
		},
		{
			&customdomains.Certificate{
				Source: customdomains.ACME, Issuer: "CN=CA", ValidFrom: validFrom, ValidTo: validTo,
				Operation: "certify-1", Next: renewal, Message: "Refused.", Failures: 1,
			},
			`{"source":"acme","status":"failed","issuer":"CN=CA","validFrom":"2026-03-14T09:26:53.000Z",` +
				`"validTo":"2026-06-12T09:26:53.000Z","renewsOn":"2026-05-13T09:26:53.000Z","message":"Refused."}`,
		},
		{
			&customdomains.Certificate{
				Source: customdomains.ACME, Operation: "certify-1", Next: renewal, Message: "Refused.",
				Failures: 1,
			},
			`{"source":"acme","status":"failed","issuer":null,"validFrom":null,"validTo":null,` +
				`"renewsOn":"2026-05-13T09:26:53.000Z","message":"Refused."}`,
		},
	} {
		got, err := json.Marshal(viewCertificate(tt.in))
		if err != nil || string(got) != tt.want {
			t.Errorf("viewCertificate(%+v) = %s, %v, want %s", tt.in, got, err, tt.want)
		}
	}
}
