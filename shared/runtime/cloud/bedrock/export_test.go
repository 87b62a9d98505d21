package bedrock

import "time"

// SetTimeout sets a client's timeout for a request.
func (c *Client) SetTimeout(d time.Duration) *Client { c.timeout = d; return c }
