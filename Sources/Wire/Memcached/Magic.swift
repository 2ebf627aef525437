/// The first byte of a frame: request or response, its sender and its layout.
package enum Magic: UInt8, Sendable {
    case request = 0x80
    case response = 0x81
    /// A request of the server (a new cluster map), without a response.
    case serverRequest = 0x82
    case serverResponse = 0x83
    /// Flexible framing: framing extras before the rest, and a key of at most 255 bytes.
    case flexRequest = 0x08
    case flexResponse = 0x18
}
