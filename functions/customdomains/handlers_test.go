package customdomains

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/customdomains"
)

func TestCertificateIsToldByWhatHasBecomeOfIt(t *testing.T) {
	from := time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC)
	to, next := from.Add(90*24*time.Hour), from.Add(60*24*time.Hour)
	for _, tt := range []struct {
		in   *customdomains.Certificate
		want string
	}{
		{nil, "null"},
		{
			&customdomains.Certificate{Source: customdomains.Uploaded, Issuer: "CN=CA", ValidFrom: from, ValidTo: to},
			`{"source":"uploaded","status":"active","issuer":"CN=CA","validFrom":"2026-03-14T09:26:53.000Z","validTo":"2026-06-12T09:26:53.000Z","renewsOn":null,"message":null}`,
		},
		{
			&customdomains.Certificate{Source: customdomains.ACME, Issuer: "CN=CA", ValidFrom: from, ValidTo: to, Operation: "certify-1", Next: next},
			`{"source":"acme","status":"active","issuer":"CN=CA","validFrom":"2026-03-14T09:26:53.000Z","validTo":"2026-06-12T09:26:53.000Z","renewsOn":"2026-05-13T09:26:53.000Z","message":null}`,
		},
		{
			&customdomains.Certificate{Source: customdomains.ACME, Issuer: "CN=CA", ValidFrom: from, ValidTo: to, Operation: "certify-1", Next: next, Message: "Refused.", Failures: 1},
			`{"source":"acme","status":"failed","issuer":"CN=CA","validFrom":"2026-03-14T09:26:53.000Z","validTo":"2026-06-12T09:26:53.000Z","renewsOn":"2026-05-13T09:26:53.000Z","message":"Refused."}`,
		},
		{
			&customdomains.Certificate{Source: customdomains.ACME, Operation: "certify-1", Next: next, Message: "Refused.", Failures: 1},
			`{"source":"acme","status":"failed","issuer":null,"validFrom":null,"validTo":null,"renewsOn":"2026-05-13T09:26:53.000Z","message":"Refused."}`,
		},
	} {
		got, err := json.Marshal(shownCertificate(tt.in))
		if err != nil || string(got) != tt.want {
			t.Errorf("got %s, %v, want %s", got, err, tt.want)
		}
	}
}
