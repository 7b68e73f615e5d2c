//! The one table of superinstructions.

/// Passes the table to a macro, after the tokens that follow its name. Groups determine how an instruction
/// ends.
macro_rules! superinstructions {
    ($callback:ident $($before:tt)*) => { $callback! { $($before)*
        fall_through {
            // Arithmetic on the result of arithmetic: the second part reads it from a machine register
            // instead of waiting for memory.
            AddAddI64 = AddI64 + AddI64: Chain;

            // Index arithmetic: a product and two sums.
            FMAAddI64 = FMAI64 + AddI64: LongChain;

            // A remainder wrapped to non-negative: index arithmetic modulo a size.
            CmpLTAddI64 = CmpLTI64S + AddI64: CompareAndCompute;
            WrapI64 = CmpLTAddI64 + SelectI64: Wrap;

            // A comparison that selects a value, as in the maximum of floats.
            CmpLTSelectF32U = CmpLTF32U + SelectF32: CompareAndSelect;
            CmpNaNSelectF32 = CmpNaNF32 + SelectF32: TestAndSelect;

            // Minimum and maximum of two values: compare-exchange in sorts.
            MinMaxI32S = MinI32S + MaxI32S: Sequence;

            // Block arguments of branches.
            Moves32 = Move32 + Move32: TwoMoves;

            // Loop-carried values: a result replaces a value that moves to another register for the next
            // iteration.
            CarryAddI32 = AddI32 + Moves32: Carry;
        }

        branches {
            // Compare and branch; the result of the comparison is dead.
            BranchNZI32 = CmpNZI32 + BranchNZI32: TestOne;
            BranchLTI64S = CmpLTI64S + BranchNZI32: Test;

            // Back edges: step an induction variable and branch on it.
            SubI32BranchNZ = SubI32 + BranchNZI32: StepAndTestOne;
            AddI64BranchLT = AddI64 + BranchLTI64S: StepAndTest;
            SubI64BranchGT = SubI64 + BranchLTI64S: StepAndTestRight;
        }

        accesses {
            // An element access and its index arithmetic, whose result is dead.
            AddLoad32 = AddI64 + Load32: LoadAt<Sum>;
            AddAddLoad32 = AddAddI64 + Load32: LoadAt<LongSum>;
            FMALoad32 = FMAI64 + Load32: LoadAt<Product>;
            FMAAddLoad32 = FMAAddI64 + Load32: LoadAt<LongProduct>;
            AddAddStore32 = AddAddI64 + Store32: StoreAt<LongSum>;

            // Elementwise computations, which use their index again.
            SumLoad8S = AddI64 + Load8S: SumAndLoad;

            // Reductions, whose accumulator is an element of a buffer.
            LoadAddF32 = Load32 + AddF32: LoadAndFold<AddF32>;
            LoadFMAF32 = Load32 + FMAF32: LoadAndFold<FMAF32>;
            AccumulateAddF32 = LoadAddF32 + Store32: Accumulate<AddF32>;
            AccumulateFMAF32 = LoadFMAF32 + Store32: Accumulate<FMAF32>;

            // Pairs of accesses.
            Loads32 = Load32 + Load32: TwoLoads;
            Stores32 = Store32 + Store32: TwoStores;

            // An index modulo a size.
            ModI64 = RemI64S + WrapI64: Remainder;
        }
    } };
}
pub(crate) use superinstructions;
