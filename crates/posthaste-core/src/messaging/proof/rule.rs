//! The rules of proof by name.
//!
//! A hub keeps all rules. The model test leaves out one at a time and shows what breaks.

/// Makes the enum and the list of all its variants from one list.
macro_rules! rules {
    ($($rule:ident,)*) => {
        /// One rule. The module above explains each.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Rule {
            $($rule,)*
        }

        impl Rule {
            pub const ALL: &[Self] = &[$(Self::$rule,)*];
        }
    };
}

rules! {
    Return,
    Grace,
    Late,
    Again,
    Once,
    Same,
    Own,
    Driver,
    Doubt,
    Cut,
    Settled,
    End,
    Hooked,
    Began,
    Alone,
    Stop,
    Turn,
    Start,
    Failed,
    Habit,
    Gone,
}

/// The set of rules that hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules(u32);

impl Rules {
    pub const ALL: Self = Self(u32::MAX);

    pub const fn without(self, rule: Rule) -> Self {
        Self(self.0 & !(1 << rule as u8))
    }

    pub(super) const fn has(self, rule: Rule) -> bool {
        self.0 & 1 << rule as u8 != 0
    }
}
