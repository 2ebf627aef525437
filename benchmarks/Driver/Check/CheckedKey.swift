internal import Bytes
internal import Foundation

/// What is known of one key that a single writer writes and reads in turns.
///
/// Versions rise with each write. A read has to find the newest acknowledged version, or one that
/// left later and whose answer was lost; and what one read has found, the next must find as well.
struct CheckedKey {
    /// What a read said that may not be.
    enum Fault: Equatable {
        /// An acknowledged version is gone.
        case lost(acknowledged: Int, found: Int)
        /// A version whose fate was unknown was there, and then it was not.
        case retracted(seen: Int, found: Int)
        /// A value that nobody wrote.
        case strange(String)
    }

    let name: String
    private(set) var sent = 0
    private(set) var acknowledged = 0
    private(set) var seen = 0

    init(_ name: String) { self.name = name }

    private var before: String { "{\"key\":\"\(name)\",\"version\":" }

    /// The value of the next write.
    mutating func write() -> [UInt8] {
        sent += 1
        return Array("\(before)\(sent)}".utf8)
    }

    /// The last write was answered with success.
    mutating func succeeded() { acknowledged = sent }

    /// A read found this; nil where there is no document.
    mutating func found(_ value: [UInt8]?) -> Fault? {
        guard let version = value.map(version(of:)) ?? 0, version <= sent else {
            return .strange(String(decoding: value ?? [], as: UTF8.self))
        }
        defer { seen = version }
        if version < acknowledged {
            defer { acknowledged = version }
            return .lost(acknowledged: acknowledged, found: version)
        }
        return version < seen ? .retracted(seen: seen, found: version) : nil
    }

    private func version(of value: [UInt8]) -> Int? {
        let text = String(decoding: value, as: UTF8.self)
        guard text.hasPrefix(before), text.hasSuffix("}") else { return nil }
        return Int(text.dropFirst(before.count).dropLast())
    }
}
