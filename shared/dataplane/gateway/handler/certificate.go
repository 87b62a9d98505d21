package handler

import (
	"crypto/tls"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/options"
	"github.com/gatewright/gatewright/shared/format/project"
)

// certificatePointer is the JSON pointer of the option "mtlsCertificate" within the options of a handler.
const certificatePointer = "/mtlsCertificate"

// CertificateOption returns the name of the certificate that a handler presents to the upstream, "" for none, and the
// JSON pointer of the option within the handler.
func CertificateOption(c project.Component) (name, pointer string) {
	var o struct {
		MTLSCertificate string `json:"mtlsCertificate"`
	}
	// Problems of other options are reported elsewhere.
	_ = options.Read(c.Options, &o)
	return o.MTLSCertificate, options.Root + certificatePointer
}

// presentCertificate makes the handler's requests present a certificate of the project. It returns a problem if the
// address is a service or does not use TLS, or if the artifact has no valid certificate of this name. A deployment with
// such a problem is not served, so no request is sent without the certificate. With CertificatesPending, the
// certificate itself is not checked.
func (p *proxy) presentCertificate(name string, s *Setup) []project.Problem {
	if name == "" || s == nil || p.address == nil {
		return nil
	}
	if p.address.IsService() {
		return []project.Problem{options.Problem(certificatePointer,
			`Remove "mtlsCertificate": a service is asked by its tunnel's agent, which shows no certificate.`)}
	}
	if !p.address.UsesTLS() {
		return []project.Problem{options.Problem(certificatePointer,
			`Begin the address with "https://", or remove "mtlsCertificate": a certificate is shown in a TLS handshake alone.`)}
	}
	if s.CertificatesPending {
		return nil
	}
	certificate, ok := s.Certificates[name]
	if !ok {
		return []project.Problem{options.Problem(certificatePointer, "Deploy the project again: it was built without the "+
			"certificate.")}
	}
	pair, err := tls.X509KeyPair([]byte(certificate.Chain), []byte(certificate.Key))
	if err != nil {
		return []project.Problem{options.Problem(certificatePointer, "Upload the certificate again: it can't be read.")}
	}
	p.client = p.client.WithCertificate(&pair)
	return nil
}
