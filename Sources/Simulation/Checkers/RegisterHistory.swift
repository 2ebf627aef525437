/// A client's operation on one document, with its times.
///
/// The value of a missing document is nil; values are bytes.
package struct RegisterOperation: Hashable, Sendable {
    package enum Action: Hashable, Sendable {
        /// Returned this value.
        case read([UInt8]?)
        case set([UInt8])
        /// Succeeds only if the document is missing.
        case add([UInt8])
        /// Succeeds only if the document exists.
        case replace([UInt8])
        case remove
        /// Succeeds only if the value is `expected`.
        case compareAndSet(expected: [UInt8], new: [UInt8])
        /// Adds to the number, or stores `initial` if the document is missing; `result` is nil if
        /// it is unknown.
        case increment(by: UInt64, initial: UInt64, result: UInt64?)
        /// Was refused because the document exists with a value other than `except`.
        case found(except: [UInt8]?)
    }

    package var action: Action
    package var called: UInt64
    /// Nil if the outcome is unknown; the operation may still take effect.
    package var returned: UInt64?
    package var client: Int

    package init(_ action: Action, called: UInt64, returned: UInt64?, client: Int = 0) {
        self.action = action
        self.called = called
        self.returned = returned
        self.client = client
    }

    /// The operation observes the state without changing it.
    package var isRead: Bool {
        switch action {
        case .read, .found: true
        default: false
        }
    }

    /// The state after the action; nil if the action is impossible in `state`.
    func apply(to state: [UInt8]?) -> [UInt8]?? {
        switch action {
        case .read(let value): return state == value ? .some(state) : nil
        case .set(let value): return .some(value)
        case .add(let value): return state == nil ? .some(value) : nil
        case .replace(let value): return state != nil ? .some(value) : nil
        case .remove: return state != nil ? .some(nil) : nil
        case .compareAndSet(let expected, let new): return state == expected ? .some(new) : nil
        case .increment(let delta, let initial, let result):
            guard let after = Self.increment(state, delta, initial: initial) else { return nil }
            if let result, result != after { return nil }
            return .some(Array(String(after).utf8))
        case .found(let other): return state != nil && state != other ? .some(state) : nil
        }
    }

    /// The incremented number; nil if the value is not a number.
    private static func increment(_ state: [UInt8]?, _ delta: UInt64, initial: UInt64) -> UInt64? {
        guard let state else { return initial }
        return UInt64(String(decoding: state, as: UTF8.self)).map { $0 &+ delta }
    }
}

extension RegisterOperation: CustomStringConvertible {
    package var description: String {
        let end = returned.map(Self.seconds) ?? "?"
        return "\(Self.seconds(called))-\(end) client \(client) \(text)"
    }

    private var text: String {
        switch action {
        case .read(let value): "read \(Self.text(value))"
        case .set(let value): "set \(Self.text(value))"
        case .add(let value): "add \(Self.text(value))"
        case .replace(let value): "replace by \(Self.text(value))"
        case .remove: "remove"
        case .compareAndSet(let expected, let new):
            "\(Self.text(expected)) becomes \(Self.text(new))"
        case .increment(let delta, _, let result):
            "add \(delta)" + (result.map { " makes \($0)" } ?? "")
        case .found(nil): "exists"
        case .found(let other): "exists, not \(Self.text(other))"
        }
    }

    static func text(_ value: [UInt8]?) -> String {
        value.map { String(decoding: $0, as: UTF8.self) } ?? "nothing"
    }

    private static func seconds(_ time: UInt64) -> String {
        let (seconds, micros) = (time / 1_000_000_000, time / 1_000 % 1_000_000)
        return "\(seconds).\(String(micros + 1_000_000).dropFirst())"
    }
}
