package import Bytes
package import Vocabulary

/// A client's request to change a counter.
package struct ArithmeticRequest {
    package let key: ByteView
    package let hash: UInt64
    package let isIncrement: Bool
    package let delta: UInt64
    /// The value of a missing counter; nil if the counter has to exist.
    package let initial: UInt64?
    /// Absolute seconds for a counter that is created, or 0.
    package let expiry: UInt32
    package let cas: CAS

    package init(
        key: ByteView,
        hash: UInt64,
        isIncrement: Bool,
        delta: UInt64,
        initial: UInt64?,
        expiry: UInt32,
        cas: CAS
    ) {
        self.key = key
        self.hash = hash
        self.isIncrement = isIncrement
        self.delta = delta
        self.initial = initial
        self.expiry = expiry
        self.cas = cas
    }
}

extension VBucketCore {
    /// Increments (wrapping at 2^64) or decrements (stopping at 0) a number stored as its digits.
    package mutating func arithmetic(
        _ request: ArithmeticRequest,
        _ turn: borrowing ExecutionContext
    ) -> WriteResult {
        mutate(request.key, hash: request.hash, tombstones: request.initial != nil, turn) {
            core,
            place,
            old in
            if let refusal = core.refusal(old, request.cas, turn) { return .refused(refusal) }
            guard core.account.admits(64) else { return .wait(.room(64)) }
            var meta = DocumentMeta(expiry: request.expiry, datatype: .json)
            let number: UInt64
            var kept = ByteView.empty
            if let old {
                if old.isEjected { return .wait(.value(old.seqno)) }
                guard let current = Self.number(old.body) else { return .refused(.notANumber) }
                let (delta, isIncrement) = (request.delta, request.isIncrement)
                number = isIncrement ? current &+ delta : current - min(current, delta)
                meta.flags = old.flags
                meta.expiry = old.expiry
                if let attributes = old.attributes {
                    let digits = String(number).utf8.count
                    guard attributes.allowsBody(of: digits) else { return .refused(.tooLarge) }
                    let needed = attributes.byteCount + old.valueCount
                    guard core.account.admits(attributes.byteCount, of: needed) else {
                        return .wait(.room(needed))
                    }
                    kept = old.value.slice(0, attributes.byteCount)
                    meta.datatype.insert(.xattr)
                }
            } else {
                guard let initial = request.initial else { return .refused(.notFound) }
                number = initial
            }
            turn.scratch.removeAll()
            turn.scratch.append(kept)
            turn.scratch.append(text: String(number))
            return core.write(
                meta,
                key: request.key,
                hash: request.hash,
                value: turn.scratch.view,
                place: place,
                number: number,
                turn
            )
        }
    }

    /// The number that ASCII digits spell, up to 2^64 - 1.
    private static func number(_ digits: ByteView) -> UInt64? {
        guard !digits.isEmpty, digits.count <= 20 else { return nil }
        var number: UInt64 = 0
        for offset in 0..<digits.count {
            let digit = digits[offset] &- 0x30
            guard digit <= 9 else { return nil }
            let (scaled, overflow) = number.multipliedReportingOverflow(by: 10)
            let (sum, carry) = scaled.addingReportingOverflow(UInt64(digit))
            guard !overflow, !carry else { return nil }
            number = sum
        }
        return number
    }
}
