package handler

import (
	"crypto/tls"

	"github.com/gatewright/gatewright/shared/gateway/options"
	"github.com/gatewright/gatewright/shared/project"
)

// certificatePointer is the option's place in a handler.
const certificatePointer = "/mtlsCertificate"

// WantedCertificate returns the name of the certificate that a handler's options have
// shown to the upstream, "" for none, and where they do, below the handler.
func WantedCertificate(c project.Component) (name, pointer string) {
	var o struct {
		MTLSCertificate string `json:"mtlsCertificate"`
	}
	// Whatever else there is among the options is no problem of this.
	_ = options.Read(c.Options, &o)
	return o.MTLSCertificate, options.Root + certificatePointer
}

// show has the handler's requests show a certificate of the project. Serving without
// the certificate that a project asks for would be worse than not serving.
func (p *proxy) show(name string, s *Setup) []project.Problem {
	if name == "" || s == nil || p.address == nil {
		return nil
	}
	if p.address.OfService() {
		return []project.Problem{options.Problem(certificatePointer, `Remove "mtlsCertificate": a service is asked by its tunnel's agent, which shows no certificate.`)}
	}
	if !p.address.Secure() {
		return []project.Problem{options.Problem(certificatePointer, `Begin the address with "https://", or remove "mtlsCertificate": a certificate is shown in a TLS handshake alone.`)}
	}
	if s.Unbound {
		return nil
	}
	its, ok := s.Certificates[name]
	if !ok {
		return []project.Problem{options.Problem(certificatePointer, "Deploy the project again: it was built without the certificate.")}
	}
	pair, err := tls.X509KeyPair([]byte(its.Chain), []byte(its.Key))
	if err != nil {
		return []project.Problem{options.Problem(certificatePointer, "Upload the certificate again: it can't be read.")}
	}
	p.client = p.client.Showing(&pair)
	return nil
}
