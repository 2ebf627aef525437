internal import CZlib

/// The container around deflated bytes.
package enum DeflateFormat: Sendable {
    /// RFC 1952: HTTP's `Content-Encoding: gzip`.
    case gzip
    /// RFC 1951, without a header or a checksum: BLIP.
    case raw

    /// zlib's parameter for a window of 2^`bits` bytes: negative for raw, 16 more for gzip.
    func windowBits(_ bits: Int) -> CInt { CInt(self == .gzip ? bits + 16 : -bits) }

    /// The largest window: the one that a receiver must have for every sender.
    static let windowBitsMax = Int(MAX_WBITS)
}
