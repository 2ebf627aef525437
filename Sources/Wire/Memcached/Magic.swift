/// The first byte of a frame: who speaks, and in which layout.
package enum Magic: UInt8, Sendable {
    case request = 0x80
    case response = 0x81
    /// The server asks (a new cluster map); nobody waits for the answer.
    case serverRequest = 0x82
    case serverResponse = 0x83
    /// Flexible framing: framing extras before the rest, and a key of at most 255 bytes.
    case flexRequest = 0x08
    case flexResponse = 0x18
}
