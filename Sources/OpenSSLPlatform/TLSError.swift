internal import COpenSSL

/// Why OpenSSL could not do something.
package struct TLSError: Error, Sendable, CustomStringConvertible {
    package let description: String
    /// Whether a key has a passphrase that was missing or wrong.
    let isAboutPassphrase: Bool
    /// Whether the other side does not speak TLS.
    let isPlainText: Bool

    /// The newest error of this thread's queue, which is emptied.
    init(_ failed: String) {
        var code: UInt = 0
        while true {
            let next = ERR_get_error()
            if next == 0 { break }
            code = next
        }
        description = "\(failed): \(TLSError.text(of: code))"
        isAboutPassphrase = divan_is_passphrase_error(code) != 0
        isPlainText = divan_ssl_is_plain_text_error(code) != 0
    }

    private static func text(of code: UInt) -> String {
        guard code != 0 else { return "OpenSSL gives no reason" }
        var buffer = [CChar](repeating: 0, count: 256)
        ERR_error_string_n(code, &buffer, buffer.count)
        return String(
            decoding: buffer.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)),
            as: UTF8.self
        )
    }
}
